"""The lab's side of a Dask cluster. `wansan lab run --on dask://…` starts it as `python3 -c`.

It reads requests on standard input and writes events on standard output, in lines of JSON:

    lab: {"scheduler": …, "program": …, "sha256": …, "needs": …}     once
    lab: {"cell": 3, "order": "…", "folder": "…"}                    for each cell
    it:  {"event": "ready"}                                          once
    it:  {"event": "room", "workers": 4, "cells": 8}                 whenever that changes
    it:  {"event": "ended", "cell": 3, "worker": "tcp://…", "hello": …}   its files are in the folder
    it:  {"event": "failed", "cell": 3, "said": "…"}
    it:  {"event": "waiting" | "lacking" | "silent" | "unfit" | "lost", …}

When its input closes, it cancels everything that still runs on the workers. The functions that workers run are sent
to them by value, so that they need nothing but Dask.
"""

import sys

# `python3 -c` searches the current folder for modules first, which is not trusted.
sys.path = [place for place in sys.path if place]

import json
import os
import queue
import threading
import uuid

# How often the workers are counted, in seconds.
COUNT_EVERY_S = 1.0
# Most retries of a cell whose process was killed or did not start.
RETRIES = 3
# Connection timeout: a running scheduler answers sooner.
CONNECT_LIMIT_S = 10
# A name that no user of a cluster uses for anything else.
NAME = "wansan-lab"


def run_cell(order, program, sha256, dask_worker=None):
    """Runs on a worker, with `order` on the program's standard input.

    Gives who has run it, what the program says of itself, and the files of the cell; or why this worker cannot run
    it. Without an order the program only says what it is. Its input stays open for as long as its answer is
    wanted: it ends with the worker, however that ends, and when the lab has gone or wants no more.
    """
    import hashlib
    import json
    import os
    import shutil
    import subprocess
    import tempfile
    from distributed import get_worker

    worker = dask_worker or get_worker()

    def unfit(said, hello=None):
        return {"worker": worker.address, "hello": hello, "unfit": said}

    path = os.path.join(worker.local_directory, program, "wansan") if program else shutil.which("wansan")
    if path is None:
        return unfit("no wansan is on its PATH")
    # The key includes its modification time: another build may be installed.
    known = worker.__dict__.setdefault("wansan_lab", {})
    state = os.stat(path)
    key = (path, state.st_ino, state.st_mtime_ns, state.st_size)
    if key not in known:
        with open(path, "rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(1 << 20):
                digest.update(piece)
            known[key] = digest.hexdigest()
    is_wanted = lambda: True
    if order is not None:
        task = worker.get_current_task()

        def is_wanted():
            state = worker.state.tasks.get(task)
            return state is not None and state.state != "cancelled"

    with tempfile.TemporaryDirectory(dir=worker.local_directory) as folder, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [path, "lab", "cell", folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return unfit(error.strerror)
        try:
            hello = process.stdout.readline()
            if hello:
                hello = json.loads(hello)
                if known[key] != sha256:
                    return unfit("another build", hello)
            if order is None:
                process.stdin.close()
            else:
                try:
                    process.stdin.write(order.encode() + b"\n")
                    process.stdin.flush()
                except BrokenPipeError:
                    pass
            while True:
                try:
                    status = process.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    if not is_wanted():
                        process.stdin.close()
                        process.wait(15)
                        return None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
            process.stdout.close()
        if status != 0 or not hello:
            errors.seek(0)
            said = errors.read()[-2000:].decode(errors="replace").strip().replace("\n", " | ")
            raise RuntimeError(f"wansan lab cell ended with status {status} on {worker.address}: {said}")
        files = []
        results = os.path.join(folder, "cell")
        for name in sorted(os.listdir(results)) if order is not None else []:
            with open(os.path.join(results, name), "rb") as file:
                files.append((name, file.read()))
        return {"worker": worker.address, "hello": hello, "files": files}


def say(event, **what):
    with said:
        print(json.dumps({"event": event, **what}), flush=True)


said = threading.Lock()

try:
    import distributed
    from distributed.diagnostics.plugin import WorkerPlugin
except ImportError as error:
    say("lacking", said=str(error))
    sys.exit(0)


class Program(WorkerPlugin):
    """Copies the program to each worker, including those that join later."""

    def __init__(self, name, content):
        self.name, self.content = name, content

    def setup(self, worker):
        import os

        folder = os.path.join(worker.local_directory, self.name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "wansan")
        with open(path + ".new", "wb") as file:
            file.write(self.content)
        os.chmod(path + ".new", 0o700)
        os.replace(path + ".new", path)

    def teardown(self, worker):
        import os
        import shutil

        shutil.rmtree(os.path.join(worker.local_directory, self.name), ignore_errors=True)


def workers_of(dask_scheduler):
    return {
        address: (worker.nthreads, dict(worker.resources)) for address, worker in dask_scheduler.workers.items()
    }


def is_unfit(answer):
    """Whether a worker cannot run this wansan; if so, reports it."""
    if "unfit" not in answer:
        return False
    say("unfit", worker=answer["worker"], hello=answer["hello"], said=answer["unfit"])
    return True


class Cluster:
    def __init__(self, begin):
        self.begin = begin
        self.scheduler = begin["scheduler"]
        self.needs = begin["needs"]
        self.sha256 = begin["sha256"]
        # Other labs may use the cluster, and disconnect while this one runs.
        self.name = f"{NAME}-{uuid.uuid4().hex}"
        self.program = begin["program"] and self.name
        self.client = distributed.Client(
            self.scheduler, timeout=CONNECT_LIMIT_S, name=NAME, set_as_default=False
        )
        self.done = queue.Queue()
        self.folders = {}
        self.futures = {}
        self.leaving = threading.Event()
        # Held while the program is sent to the workers: if withdrawn before it arrives, it would stay there.
        self.handing_over = threading.Lock()
        self.is_handed_over = False

    def count(self):
        """The number of workers that accept such cells, and their total concurrency."""
        workers = self.client.run_on_scheduler(workers_of)
        if self.needs is None:
            return len(workers), sum(threads for threads, _ in workers.values())
        fit = [resources[self.needs] for _, resources in workers.values() if resources.get(self.needs, 0) >= 1]
        return len(fit), int(sum(fit))

    def get_ready(self):
        """Sends the program to the workers, and checks that all of them can run it."""
        try:
            self.try_to_get_ready()
        except Exception as error:
            if not self.leaving.is_set():
                say("lost", said=f"{type(error).__name__}: {error}")

    def try_to_get_ready(self):
        if not self.client.nthreads():
            say("waiting")
            self.client.wait_for_workers(1)
        if self.program:
            self.hand_over()
        greeted = self.client.run(run_cell, None, self.program, self.sha256, on_error="return")
        for worker, answer in greeted.items():
            if isinstance(answer, BaseException):
                answer = {"worker": worker, "hello": None, "unfit": f"{type(answer).__name__}: {answer}"}
            if is_unfit(answer):
                return
        say("ready")
        threading.Thread(target=self.collect, daemon=True).start()
        threading.Thread(target=self.keep_counting, daemon=True).start()

    def hand_over(self):
        with open(self.begin["program"], "rb") as file:
            content = file.read()
        with self.handing_over:
            if not self.leaving.is_set():
                self.is_handed_over = True
                self.client.register_plugin(Program(self.program, content))

    def keep_counting(self):
        last = None
        while True:
            try:
                now = self.count()
            except Exception as error:
                if not self.leaving.is_set():
                    say("lost", said=f"{type(error).__name__}: {error}")
                return
            if now != last:
                say("room", workers=now[0], cells=now[1])
                last = now
            if self.leaving.wait(COUNT_EVERY_S):
                return

    def submit(self, cell, order, folder):
        future = self.client.submit(
            run_cell,
            order,
            self.program,
            self.sha256,
            pure=False,
            retries=RETRIES,
            resources=self.needs and {self.needs: 1},
            key=f"{self.name}-{cell}",
        )
        self.folders[cell] = folder
        self.futures[cell] = future
        future.add_done_callback(lambda future: self.done.put((cell, future)))

    def collect(self):
        while True:
            cell, future = self.done.get()
            try:
                self.take(cell, future)
            except Exception as error:
                if not self.leaving.is_set():
                    self.fail(cell, error)
            self.futures.pop(cell, None)
            del future

    def take(self, cell, future):
        answer = future.result()
        if is_unfit(answer):
            return
        folder = self.folders.pop(cell)
        os.makedirs(folder, exist_ok=True)
        for name, content in answer["files"]:
            with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                file.write(content)
        say("ended", cell=cell, worker=answer["worker"], hello=answer["hello"])

    def fail(self, cell, error):
        if isinstance(error, distributed.scheduler.KilledWorker):
            times, last = error.allowed_failures + 1, error.last_worker.address
            say("failed", cell=cell, said=f"{times} of Dask's workers died while they ran it, {last} last")
        elif isinstance(error, (distributed.client.FutureCancelledError, distributed.CancelledError)):
            say("lost", said=f"{type(error).__name__}: {error}")
        else:
            say("failed", cell=cell, said=str(error).replace("\n", " | ") or type(error).__name__)

    def leave(self):
        self.leaving.set()
        self.client.cancel(list(self.futures.values()), force=True)
        with self.handing_over:
            if self.is_handed_over:
                self.client.unregister_worker_plugin(self.program)
        self.client.close()


def main():
    begin = json.loads(sys.stdin.readline())
    try:
        cluster = Cluster(begin)
    except Exception as error:
        say("silent", said=str(error).replace("\n", " | ") or type(error).__name__)
        return
    threading.Thread(target=cluster.get_ready, daemon=True).start()
    try:
        for line in sys.stdin:
            cluster.submit(**json.loads(line))
    finally:
        cluster.leave()


main()
