"""What every worker does: answers requests for translations, one JSON line each, and says how long it took.

A worker is a process of its own in its system's environment, so that systems can be timed in turn, again and again.
"""

import json
import resource
import sys
import time
from pathlib import Path


def serve(translate):
    """translate(texts, beam) -> texts; called with all texts at once, or with one at a time."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not get between the answers
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        texts, beam = request["texts"], request["beam"]
        start = time.perf_counter()
        outputs = [translate([text], beam)[0] for text in texts] if request["single"] else translate(texts, beam)
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "outputs": outputs, "megabytes": _peak()}), file=out, flush=True)


def _peak():
    """Megabytes this program held at most. What getrusage tells begins with those of the program that started it."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
