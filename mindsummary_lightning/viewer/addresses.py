"""Addresses of the front end's pages."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import quote

RUN_TABLE = "table of runs"
_OF_ALL_RUNS = {"runs": "summary-manage", "model lineage": "model-traceback", "data lineage": "data-traceback"}
_OF_ONE_RUN = {
    "dashboard": "training-dashboard?id",
    "scalars": "scalar?train_id",
    "histograms": "histogram?train_id",
    "images": "image?train_id",
    "tensors": "tensor?train_id",
    "graph": "graph?train_id",
    "dataset graph": "data-map?train_id",
    "loss landscape": "loss-analysis?train_id",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on an interface; an unknown name may be reached by others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_names(host: str) -> list[str]:
    """Names that browsers may call a server by, which listens on ``host``, beside ``localhost`` and IP addresses."""
    return [] if is_loopback(host) else [host, socket.gethostname(), socket.getfqdn()]


def server_address(host: str, port: int) -> str:
    """Address, as a browser on this machine reaches it, of a server that listens on ``host``."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def page_addresses(server: str, token: str | None, train_id: str | None = None) -> list[tuple[str, str]]:
    """Names and addresses of the pages over all runs, and of those of one run if one is meant."""
    root = f"{server}/{token}" if token else server
    start = f"{root}/#/"
    pages = [(name, start + route) for name, route in _OF_ALL_RUNS.items()]
    pages.append((RUN_TABLE, f"{root}/runs"))
    if train_id is not None:
        run = quote(train_id, safe="")
        # The pages of a run show the path that the address names.
        pages += [(name, f"{start}train-manage/{route}={run}&summaryPath={run}") for name, route in _OF_ONE_RUN.items()]
    return pages
