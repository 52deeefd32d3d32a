#!/usr/bin/env python3
"""vLLM's result fields from a requests.jsonl, by another route than the Go code.

Written from the description of vLLM's meanings alone: every event gets an
absolute time, statistics are exact fractions over pooled lists, peaks come
from dictionaries. Standard library only.

    independent.py requests.jsonl options.json > result.json
"""
import json
import sys
from collections import Counter
from fractions import Fraction
from math import floor, isqrt


def events_of(line):
    """Absolute times in microseconds, as integers relative to sent."""
    marks = []
    if "first_ns" in line and "sent_ns" in line:
        whole, rest = divmod(line["first_ns"] - line["sent_ns"], 1000)
        now = whole + (1 if rest >= 500 else 0)
        marks.append(now)
        for gap in line.get("gaps_us", []):
            now += gap if gap >= 0 else -(gap + 1)
            marks.append(now)
    for letter, us in zip(line.get("other", ""), line.get("other_us", [])):
        if letter in "ref":
            marks.append(us)
    return sorted(marks)


def square_root(x):
    """Of a Fraction, good to more digits than a float has."""
    scale = 10**40
    return Fraction(isqrt(x.numerator * scale // x.denominator), 10**20)


def percentile(values, p):
    values = sorted(values)
    place = Fraction(len(values) - 1) * Fraction(str(p)) / 100
    below = floor(place)
    above = min(below + 1, len(values) - 1)
    share = place - below
    return values[below] * (1 - share) + values[above] * share


def describe(out, name, values, levels):
    """values: Fractions of microseconds."""
    if not values:
        values = [Fraction(0)]
    mean = sum(values) / len(values)
    variance = sum(v * v for v in values) / len(values) - mean * mean
    out[f"mean_{name}_ms"] = float(mean / 1000)
    out[f"median_{name}_ms"] = float(percentile(values, 50) / 1000)
    out[f"std_{name}_ms"] = float(square_root(variance) / 1000)
    for p in levels:
        word = str(int(p)) if int(p) == p else str(p)
        out[f"p{word}_{name}_ms"] = float(percentile(values, p) / 1000)


def main():
    with open(sys.argv[2]) as f:
        opts = json.load(f)
    lines = []
    with open(sys.argv[1]) as f:
        for text in f:
            line = json.loads(text)
            if line.get("warmup"):
                continue
            if opts.get("stages") and line["stage"] not in opts["stages"]:
                continue
            lines.append(line)
    lines.sort(key=lambda l: (l.get("sent_ns", l.get("scheduled_ns", 0)), l["id"]))

    good = [l for l in lines if not l.get("error")]
    begin = min(min(l.get("scheduled_ns", 1 << 62), l.get("sent_ns", 1 << 62)) for l in lines)
    finish = max(max(l.get("end_ns", 0), l.get("sent_ns", 0) + 1000 * (events_of(l) or [0])[-1]) for l in lines)
    duration = Fraction(finish - begin, 10**9)

    ttft, tpot, itl, e2el = [], [], [], []
    kept = 0
    for l in good:
        marks = events_of(l)
        out_tokens = l.get("output_tokens", 0) or 1
        ttft.append(Fraction(marks[0]))
        e2el.append(Fraction(marks[-1]))
        itl.extend(Fraction(b - a) for a, b in zip(marks, marks[1:]))
        per_token = Fraction(0)
        if out_tokens > 1:
            per_token = Fraction(marks[-1] - marks[0], out_tokens - 1)
            tpot.append(per_token)
        mine = {"ttft": ttft[-1], "tpot": per_token, "e2el": e2el[-1]}
        if all(mine[k] <= Fraction(str(v)) * 1000 for k, v in opts["goodput"].items()):
            kept += 1

    tokens_in = sum(l.get("input_tokens", 0) or l.get("asked_input_tokens", 0) for l in good)
    tokens_out = sum(l.get("output_tokens", 0) or 1 for l in good)
    zero = min(l["sent_ns"] for l in good)
    per_second, touched = Counter(), Counter()
    for l in good:
        marks = [l["sent_ns"] + 1000 * m for m in events_of(l)]
        for m in marks:
            per_second[(m - zero) // 10**9] += 1
        for second in range((l["sent_ns"] - zero) // 10**9, (marks[-1] - zero) // 10**9 + 1):
            touched[second] += 1

    result = {
        "duration": float(duration),
        "completed": len(good),
        "failed": len(lines) - len(good),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": float(len(good) / duration),
        "request_goodput": float(kept / duration) if opts["goodput"] else None,
        "output_throughput": float(tokens_out / duration),
        "total_token_throughput": float((tokens_in + tokens_out) / duration),
        "input_lens": [l.get("input_tokens", 0) or l.get("asked_input_tokens", 0) for l in lines],
        "output_lens": [0 if l.get("error") else l.get("output_tokens", 0) or 1 for l in lines],
        "ttfts": [(events_of(l) or [0])[0] / 1e6 for l in lines],
        "itls": [[(b - a) / 1e6 for a, b in zip(events_of(l), events_of(l)[1:])] for l in lines],
        "latencies": [0.0 if l.get("error") else events_of(l)[-1] / 1e6 for l in lines],
        "start_times": [(l.get("sent_ns", l.get("scheduled_ns", 0)) - begin) / 1e9 for l in lines],
        "generated_texts": [l.get("text", "") for l in lines],
        "errors": [
            l.get("error", "") + (": " + l["error_detail"] if l.get("error_detail") else "") for l in lines
        ],
        "max_output_tokens_per_s": float(max(per_second.values())),
        "max_concurrent_requests": max(touched.values()),
        "rtfx": 0.0,
    }
    for name, values in (("ttft", ttft), ("tpot", tpot), ("itl", itl), ("e2el", e2el)):
        if name in opts["metrics"]:
            describe(result, name, values, opts["percentiles"])
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
