"""Runs in gpuhunt's own environment: the requests of `bench.offer_search` by its catalogue.

Its items are made of the same CSV files, one for each row and mode; it has no notion of GPUs that
are priced apart from their host, as Google's are. Prints one JSON value.
"""

import csv
import json
import resource
import sys
import time
from pathlib import Path

started = time.process_time()
import gpuhunt  # noqa: E402
from gpuhunt._internal.catalog import Catalog, ProviderCatalog  # noqa: E402

imported_s = time.process_time() - started
FILES, REQUESTS = Path(sys.argv[1]), json.loads(sys.argv[2])


def items(file_name, provider):
    with (FILES / f"{file_name}.csv").open() as file:
        for row in csv.DictReader(file):
            if not row["InstanceType"]:
                continue
            count = int(float(row["AcceleratorCount"] or 0))
            for column, spot in (("Price", False), ("SpotPrice", True)):
                if row[column]:
                    yield gpuhunt.CatalogItem(
                        provider=provider,
                        instance_name=row["InstanceType"],
                        location=row.get("AvailabilityZone") or row["Region"],
                        price=float(row[column]),
                        cpu=int(float(row["vCPUs"] or 0)),
                        memory=float(row["MemoryGiB"] or 0),
                        gpu_vendor=gpuhunt.AcceleratorVendor.NVIDIA if count else None,
                        gpu_count=count,
                        gpu_name=row["AcceleratorName"] or None,
                        gpu_memory=None,
                        spot=spot,
                        disk_size=None,
                    )


before = time.process_time()
catalog = Catalog(auto_reload=False, balance_resources=False)
PROVIDERS = {"aws": "aws", "azure": "azure", "gcp": "gcp", "lambdalabs": "lambda"}
for name, file_name in PROVIDERS.items():
    found = sorted(items(file_name, name), key=lambda item: item.price)
    catalog.catalog[name] = ProviderCatalog("1", found)
catalog.loaded_at = time.monotonic()
loaded_s = time.process_time() - before


def cheapest(wishes):
    best = None
    for wish in wishes:
        found = catalog.query(
            provider=[wish["cloud"]] if wish.get("cloud") else list(PROVIDERS),
            gpu_name=[wish["gpu"]],
            min_gpu_count=wish["count"],
            max_gpu_count=wish["count"],
            spot=wish["spot"],
        )
        for item in found:
            if best is None or item.price < best.price:
                best = item
    return best and {
        "cloud": PROVIDERS[best.provider],
        "type": best.instance_name,
        "price": best.price,
    }


answers = []
for request in REQUESTS:
    spent = []
    for _ in range(request["rounds"] + 1):
        before = time.process_time()
        answer = cheapest(request["wishes"])
        spent.append(time.process_time() - before)
    told = {"name": request["name"], "cpu_s": min(spent[1:]), "answer": answer}
    if request.get("one_by_one"):
        told["one_by_one"] = [cheapest([wish]) for wish in request["wishes"]]
    answers.append(told)
print(
    json.dumps(
        {
            "imported_s": imported_s,
            "loaded_s": loaded_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "answers": answers,
        }
    )
)
