"""What runs as a machine: two small processes, the keeper and init, and the records they keep.

These modules run in an interpreter of their own without site-packages (`python -I -S`), so they
import the standard library and `provisioner.clock` only, and nothing that makes them big. They know
nothing of offers, prices or the control plane; their whole world is one machine's folder:

    machine.json    what was bought; written once, by the provider
    boot.json       how to boot the current run; written by the provider before each boot
    user-data       the bootstrap script
    state.json      the state: written by init (by the keeper once init is dead) while the machine
                    is alive, else by the provider under the root's lock
    request.json    what the provider asks of a living machine: stop or terminate
    reclaim.json    an order to take the machine back at an instant
    init.json       keeper's and init's process ids with their start times
    alive           locked by keeper and init as long as either lives; its mtime is a sign of life
    console.log     what the boot script wrote, bounded
    metadata/       what the machine may read about itself: spot/instance-action
    disk/           the machine's own disk
"""
