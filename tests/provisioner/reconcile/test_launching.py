from tests.provisioner.world import *
from provisioner.workstations.service import NewWorkstation
from provisioner.jobs.service import NewJob

def test_x(either):
    world = either
    desk = world.roost.workstations.create(world.admin, NewWorkstation("desk"))
    job = world.roost.jobs.submit(world.admin, NewJob("train", argv=["true"]))
    world.tick_until(lambda: world.job_row(job.id).state == "running")
    world.agent(job.id).exits(0)
    world.tick_until(lambda: len(world.machines()) == 1)
    print(world.states(), world.bill(), world.cloud.calls[-3:])
