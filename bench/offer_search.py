"""Searching 112,593 rows of offers, beside SkyPilot's optimizer and gpuhunt, in one run.

The same files, the same requests; CPU seconds of warm searches, each peer in an environment of its
own that is made once under the user's cache folder (SkyPilot: 460 MB). The cheapest answers are
compared, of the candidates one by one; what differs is printed. A request at Google does not mean
the same to both peers: gpuhunt has no notion of GPUs that are priced apart from their host, and
SkyPilot asks for more CPUs beside a T4 than the cheapest host has. SkyPilot reads the files at its
import.

    python -m bench.offer_search [--files FOLDER] [--rounds 3] [--without skypilot]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PEERS = {"skypilot": "skypilot==0.14.1", "gpuhunt": "gpuhunt==0.1.34"}
FILES = Path(__file__).parents[2] / "shared" / "data" / "offers"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roost" / "bench"
ON_THREE = [("A100", 8), ("A100-80GB", 8), ("H100", 1), ("H100", 8), ("H200", 8), ("T4", 1)]
ON_THREE += [("T4", 4)]
ON_TWO = [("L4", 1), ("L4", 4), ("L4", 8)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, default=FILES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", choices=list(PEERS), action="append", default=[])
    asked = parser.parse_args()
    if not asked.files.is_dir():
        sys.exit(f"There is no folder {asked.files}; name one with --files.")
    requests = list(_requests(asked.rounds))
    ours = _ours(asked.files, requests)
    found = {"roost": ours}
    for peer in PEERS.keys() - set(asked.without):
        found[peer] = _peer(peer, asked.files, requests)
    _show(found, requests)


def _requests(rounds: int) -> Iterator[dict[str, Any]]:
    for spot in (False, True):
        name = f"A100:8 {'spot' if spot else 'on demand'}"
        wish = {"gpu": "A100", "count": 8, "spot": spot}
        yield {"name": name, "wishes": [wish], "rounds": rounds}
    wishes = [
        {"gpu": gpu, "count": count, "spot": spot, "cloud": cloud}
        for gpus, clouds in ((ON_THREE, ("aws", "azure", "gcp")), (ON_TWO, ("aws", "gcp")))
        for gpu, count in gpus
        for cloud in clouds
        for spot in (False, True)
    ]
    yield {"name": f"{len(wishes)} candidates", "wishes": wishes, "rounds": 1, "one_by_one": True}


def _ours(files: Path, requests: list[dict[str, Any]]) -> dict[str, Any]:
    before = time.process_time()
    import numpy  # noqa: F401 (counted apart: SkyPilot's import holds its own)
    import pandas  # noqa: F401

    from policies.world import PurchaseMode
    from provisioner.offers.catalogue import Catalogue
    from provisioner.offers.query import OfferQuery, parse_gpus
    from provisioner.offers.search import Search, Searcher
    from provisioner.offers.sources.csv_files import csv_files, read_csv

    imported_s = time.process_time() - before
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before, wall = time.process_time(), time.perf_counter()
    catalogue = Catalogue()
    for file in csv_files(files):
        catalogue.update_columns(file.stem, read_csv(file))
    loaded_s, loaded_wall_s = time.process_time() - before, time.perf_counter() - wall
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    from datetime import UTC, datetime

    searcher = Searcher(catalogue, {}, {}, datetime(2026, 1, 1, tzinfo=UTC))

    def cheapest(wishes: list[dict[str, Any]]) -> Any:
        best = None
        for wish in wishes:
            query = OfferQuery(
                gpus=parse_gpus([f"{wish['gpu']}:{wish['count']}"]),
                mode=PurchaseMode.SPOT if wish["spot"] else PurchaseMode.ON_DEMAND,
                providers=(wish["cloud"],) if wish.get("cloud") else (),
            )
            found = next(searcher.find(Search(query, everything=True), 0, 1), None)
            if found and (best is None or found.offer.price_per_hour < best.price_per_hour):
                best = found.offer
        return best and {
            "cloud": best.provider,
            "type": best.instance_type,
            "price": float(best.price_per_hour),
        }

    answers = []
    for request in requests:
        spent = []
        for _ in range(20):
            before = time.process_time()
            answer = cheapest(request["wishes"])
            spent.append(time.process_time() - before)
        told = {"name": request["name"], "cpu_s": min(spent[1:]), "answer": answer}
        if request.get("one_by_one"):
            told["one_by_one"] = [cheapest([wish]) for wish in request["wishes"]]
        answers.append(told)
    return {
        "imported_s": imported_s,
        "loaded_s": loaded_s,
        "loaded_wall_s": loaded_wall_s,
        "grown_mib": grown,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "answers": answers,
    }


def _peer(peer: str, files: Path, requests: list[dict[str, Any]]) -> dict[str, Any]:
    python = _environment(peer)
    script = Path(__file__).parent / "peers" / f"{peer}_offers.py"
    with tempfile.TemporaryDirectory() as home:
        quiet = {"HOME": home, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        done = subprocess.run(
            [python, script, files, json.dumps(requests)],
            env=os.environ | quiet,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        sys.exit(f"{peer} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _environment(peer: str) -> Path:
    folder = CACHE / PEERS[peer].replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"Installing {PEERS[peer]} into {folder}, once.", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PEERS[peer]], check=True)
        (folder / "ready").touch()
    return python


def _show(found: dict[str, dict[str, Any]], requests: list[dict[str, Any]]) -> None:
    ours = found["roost"]
    print(
        f"roost loads the files in {ours['loaded_s']:.2f} CPU-s ({ours['loaded_wall_s']:.2f} s), "
        f"and grows by {ours['grown_mib']:.0f} MiB"
    )
    head = f"{'':<20} {'import s':>9} {'peak MiB':>9}"
    print(head + "".join(f" {one['name']:>18}" for one in ours["answers"]))
    for name, told in found.items():
        cells = f"{name:<20} {told['imported_s']:>9.2f} {told['peak_mib']:>9.0f}"
        cells += "".join(f" {one['cpu_s'] * 1000:>15.2f} ms" for one in told["answers"])
        print(cells)
    for name in found.keys() - {"roost"}:
        ratios = [
            theirs["cpu_s"] / own["cpu_s"]
            for own, theirs in zip(ours["answers"], found[name]["answers"], strict=True)
        ]
        print(f"{name + ' / roost':<40}" + "".join(f" {ratio:>16,.0f} x" for ratio in ratios))
    for at, own in enumerate(ours["answers"]):
        print(f"cheapest of {own['name']}:")
        for name in found:
            answer = found[name]["answers"][at]["answer"]
            told = answer and f"{answer['cloud']} {answer['type']} {answer['price']:.4f} USD"
            print(f"    {name:<10} {told or 'nothing'}")
    for name in found.keys() - {"roost"}:
        _compare(name, ours, found[name], requests)


def _compare(
    peer: str, ours: dict[str, Any], theirs: dict[str, Any], requests: list[dict[str, Any]]
) -> None:
    """The cheapest price of each candidate, ours and a peer's."""
    for request, own, their in zip(requests, ours["answers"], theirs["answers"], strict=True):
        if "one_by_one" not in own:
            continue
        others = []
        for wish, one, two in zip(
            request["wishes"], own["one_by_one"], their["one_by_one"], strict=True
        ):
            prices = [f"{each['price']:.4f}" if each else "nothing" for each in (one, two)]
            if prices[0] != prices[1]:
                mode = "spot" if wish["spot"] else "on demand"
                what = f"{wish['gpu']}:{wish['count']} at {wish['cloud']} {mode}"
                others.append(f"    {what:<32} roost {prices[0]}, {peer} {prices[1]}")
        same = len(request["wishes"]) - len(others)
        print(f"{peer}: the same cheapest price for {same} of {request['name']}")
        print(*others, sep="\n", end="\n" if others else "")


if __name__ == "__main__":
    main()
