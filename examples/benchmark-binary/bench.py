#!/usr/bin/env python3
"""A benchmark binary for `assay compare`, as docs/formats/benchmark-binary.md has it.

Put your engine in the place of Engine. This one computes nothing: it gives a
token each millisecond.
"""
import json
import sys
import threading
import time

# The wall clock once, monotonic time since: a step of the wall clock bends nothing.
WALL, MONO = time.time_ns(), time.monotonic_ns()


def now():
    return WALL + time.monotonic_ns() - MONO


class Engine:
    def generate(self, prompt, max_tokens, temperature, ignore_eos):
        """Yields the tokens of an answer, each when it is there."""
        for n in range(max_tokens):
            time.sleep(0.001)
            yield "word%d " % n


def measure(engine, job, number):
    """Runs one request and gives its line."""
    line = {"id": "r%d" % number, "prompt": number, "sent_ns": now()}
    if number < job["warmups"]:
        line["warmup"] = True
    if "random" in job:
        case = {"prompt": "%d " % number + "word " * (job["random"]["input_tokens"] - 1),
                "max_tokens": job["random"]["output_tokens"]}
    else:
        case = job["test_cases"][number % len(job["test_cases"])]
    text = []
    try:
        for token in engine.generate(case["prompt"], case["max_tokens"], case.get("temperature"), job.get("ignore_eos", False)):
            line["last_ns"] = now()
            line.setdefault("first_ns", line["last_ns"])
            text.append(token)
        line["output_tokens"] = len(text)
        line["tokens_from"] = "usage"
        if job.get("keep_text"):
            line["text"] = "".join(text)
    except Exception as e:  # the engine's failure is a result, too
        line["error"], line["error_detail"] = "stream_error", str(e)[:500]
    line["end_ns"] = now()
    return line


def read_job():
    """Gives the job, and ends the program if it is not one that it can do."""
    job = json.load(sys.stdin)
    if job.get("format") != "assay/benchmark-job/v1":
        sys.exit("this program does not know jobs of format %r" % job.get("format"))
    if "request_rate" in job:
        sys.exit("this program only runs closed loops")
    return job


def run(engine, job):
    """Does the job, and writes a line for each request."""
    output = threading.Lock()

    def requests(numbers):
        numbers, taking = iter(numbers), threading.Lock()

        def stream():
            while True:
                with taking:
                    number = next(numbers, None)
                if number is None:
                    return
                line = json.dumps(measure(engine, job, number))
                with output:
                    print(line, flush=True)

        streams = [threading.Thread(target=stream) for _ in range(max(1, job["concurrency"]))]
        for s in streams:
            s.start()
        for s in streams:
            s.join()

    requests(range(job["warmups"]))
    requests(range(job["warmups"], job["warmups"] + job["requests"]))


if __name__ == "__main__":
    run(Engine(), read_job())
