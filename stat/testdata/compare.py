"""Makes compare.json: run with scipy, statsmodels and emcee installed.

    python compare.py > compare.json

Where a library has the number, the library computes it. Where none does
(exact distributions with many ties, Hodges-Lehmann intervals, Cliff's interval,
confidence sequences), it is computed here another way than in Go: by whole
numbers of any size, by brute force over all pairs, or by root finding.
"""
import json
from collections import Counter
from fractions import Fraction
from math import comb

import emcee
import numpy as np
from scipy import special, stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(11)
out = {"versions": {m: __import__(m).__version__ for m in ("scipy", "statsmodels", "emcee", "numpy")}}
SIDES = ("two-sided", "less", "greater")
EVERY = stats.PermutationMethod(n_resamples=np.inf)


def lst(x):
    return [float(v) for v in x]


def sign_flips(d):
    """Whole-number distribution of twice T+ with Pratt's zeros."""
    r = np.rint(2 * stats.rankdata(np.abs(d))).astype(int)
    dist = Counter({0: 1})
    for rank, x in zip(r, d):
        if x != 0:
            nxt = Counter(dist)
            for s, c in dist.items():
                nxt[s + int(rank)] += c
            dist = nxt
    return dist, int(sum(rank for rank, x in zip(r, d) if x > 0))


def exact_p(dist, seen):
    total = sum(dist.values())
    less = Fraction(sum(c for s, c in dist.items() if s <= seen), total)
    more = Fraction(sum(c for s, c in dist.items() if s >= seen), total)
    return {"less": float(less), "greater": float(more), "two-sided": float(min(Fraction(1), 2 * min(less, more)))}


cases = []
data = [[0.7], [-1.5, 2.0], [1, 2, -3], [1.0, 1.0, -1.0, 2.0], [0, 0, 1, -2, 3], [3, 3, 3, 3, 3, 3]]
for n in (5, 6, 8, 10, 12, 20, 50, 100):
    data.append(lst(rng.standard_normal(n) + 0.3))
for n in (6, 9, 12):
    data.append(lst(rng.integers(-3, 6, n)))
for n in (20, 50, 90, 100):
    data.append(lst(rng.integers(-6, 10, n)))
for n in (150, 400):
    data.append(lst(rng.standard_t(2, n) + 0.1))
    data.append(lst(rng.integers(-20, 24, n)))
for d in data:
    nonzero = int(np.count_nonzero(d))
    ties = nonzero < len(d) or len(set(np.abs(d))) < len(d)
    c = {"d": d, "exact": None, "normal": {}, "z": None}
    r = stats.rankdata(np.abs(d))
    c["statistic"] = float(sum(v for v, x in zip(r, d) if x > 0))
    if nonzero <= 100:
        c["exact"] = exact_p(*sign_flips(d))
        if 2 <= len(d) <= 12:
            for side in SIDES:
                p = stats.wilcoxon(d, zero_method="pratt", alternative=side, method=EVERY).pvalue
                assert abs(p - c["exact"][side]) < 1e-12, (d, side)
        elif not ties:
            for side in SIDES:
                p = stats.wilcoxon(d, alternative=side, method="exact").pvalue
                assert abs(p / c["exact"][side] - 1) < 1e-9, (n, side)
    for side in SIDES:
        res = stats.wilcoxon(d, zero_method="pratt", correction=True, alternative=side, method="asymptotic")
        c["normal"][side] = float(res.pvalue)
    cases.append(c)
out["signed_rank"] = cases


def shares(x, y):
    """Whole-number distribution of the doubled rank sum of x over all choices."""
    r = np.rint(2 * stats.rankdata(np.concatenate([x, y]))).astype(int)
    dist = [Counter({0: 1})] + [Counter() for _ in x]
    for rank in r:
        for j in range(len(x), 0, -1):
            for s, c in dist[j - 1].items():
                dist[j][s + int(rank)] += c
    assert sum(dist[-1].values()) == comb(len(x) + len(y), len(x))
    return dist[-1], int(sum(r[: len(x)]))


cases = []
data = [([1.0], [2.0]), ([1.0, 2.0], [3.0]), ([1, 1, 2], [1, 2, 2, 3]), ([5, 5], [5, 5, 5])]
for n, m in ((3, 3), (4, 4), (5, 8), (8, 5), (12, 20), (30, 30), (50, 50), (7, 300)):
    data.append((lst(rng.standard_normal(n) + 0.4), lst(rng.standard_normal(m))))
for n, m in ((3, 5), (6, 6), (5, 9), (12, 20), (25, 25), (2, 60)):
    data.append((lst(rng.integers(0, 6, n)), lst(rng.integers(0, 8, m))))
for n, m in ((60, 70), (200, 40)):
    data.append((lst(rng.standard_t(2, n) + 0.2), lst(rng.standard_t(2, m))))
    data.append((lst(rng.integers(0, 30, n)), lst(rng.integers(0, 33, m))))
for x, y in data:
    n, m = len(x), len(y)
    ties = len(set(x) | set(y)) < n + m
    c = {"x": x, "y": y, "exact": None, "normal": {}, "statistic": float(stats.mannwhitneyu(x, y).statistic)}
    if n * m <= 2500:
        c["exact"] = exact_p(*shares(x, y))
        for side in SIDES:
            if comb(n + m, n) <= 20000 and min(n, m) > 1:
                p = stats.mannwhitneyu(x, y, alternative=side, method=EVERY).pvalue
            elif not ties:
                p = stats.mannwhitneyu(x, y, alternative=side, method="exact").pvalue
            else:
                continue
            assert abs(p / c["exact"][side] - 1) < 1e-8, (n, m, side, p)
    for side in SIDES:
        p = stats.mannwhitneyu(x, y, alternative=side, method="asymptotic", use_continuity=True).pvalue
        c["normal"][side] = None if np.isnan(p) else float(p)
    cases.append(c)
out["mann_whitney"] = cases


def ends(values, dist, confidence):
    """k-th values from both ends: the largest k with P(statistic <= k-1) <= tail."""
    values, total = np.sort(values), sum(dist.values())
    tail, k, sofar = (1 - Fraction(confidence)) / 2, 0, 0
    for s in range(len(values)):
        sofar += dist.get(2 * s, 0)
        if Fraction(sofar, total) > tail:
            break
        k, held = s + 1, 1 - 2 * Fraction(sofar, total)
    if k == 0:
        return {"lo": None, "hi": None, "held": None}
    return {"lo": float(values[k - 1]), "hi": float(values[len(values) - k]), "held": float(held)}


# The depression scores of Hollander and Wolfe: their book gives -0.46 and, at
# 96 %, -0.786 to -0.010.
before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
cases = []
data = [[2.5], [1.0, 4.0], lst(rng.standard_normal(5)), lst(rng.standard_normal(6)), [a - b for a, b in zip(after, before)]]
data += [lst(rng.standard_t(2, n)) for n in (10, 11, 25, 60, 100)] + [lst(rng.integers(-4, 9, 15))]
for d in data:
    a = np.array(d)
    i, j = np.triu_indices(len(a))
    w = (a[i] + a[j]) / 2
    dist, _ = sign_flips(np.arange(1, len(a) + 1))
    for confidence in ("0.95", "0.99"):
        cases.append({"d": d, "confidence": float(confidence), "est": float(np.median(w)), **ends(w, dist, confidence)})
out["hodges_lehmann"] = cases

cases = []
for n, m in ((1, 1), (3, 3), (4, 4), (5, 9), (9, 5), (20, 30), (50, 50)):
    x, y = rng.standard_t(3, n) + 0.5, rng.standard_t(3, m)
    dist, _ = shares(np.arange(n), np.arange(n, n + m))
    dist = {s - n * (n + 1): c for s, c in dist.items()}
    w = np.subtract.outer(x, y).ravel()
    for confidence in ("0.9", "0.95"):
        cases.append({"x": lst(x), "y": lst(y), "confidence": float(confidence), "est": float(np.median(w)), **ends(w, dist, confidence)})
out["hodges_lehmann2"] = cases

cases = []
data = [(lst(rng.standard_normal(n) + s), lst(rng.standard_normal(m))) for n, m, s in ((2, 2, 0), (10, 10, 0.5), (7, 15, 1), (30, 20, -0.3))]
data += [(lst(rng.integers(0, 6, 12)), lst(rng.integers(1, 7, 9))), ([3.0] * 4, [3.0] * 5), ([5, 6, 7.0], [1, 2, 3, 4.0]), ([1, 2.0], [3, 4, 5.0])]
for x, y in data:
    n, m = len(x), len(y)
    dom = np.sign(np.subtract.outer(x, y))
    d = dom.mean()
    z = stats.norm.ppf(0.975)
    if abs(d) == 1:
        b = min(n, m)
        far = (b - z * z) / (b + z * z)
        lo, hi = (far, 1) if d > 0 else (-1, -far)
    else:
        var = m**2 * ((dom.mean(1) - d) ** 2).sum() + n**2 * ((dom.mean(0) - d) ** 2).sum() - ((dom - d) ** 2).sum()
        var = max(var / (n * m * (n - 1) * (m - 1)), (1 - d * d) / (n * m - 1))
        spread = z * np.sqrt(var) * np.sqrt(1 - 2 * d * d + d**4 + z * z * var)
        lo, hi = (d - d**3 - spread) / (1 - d * d + z * z * var), (d - d**3 + spread) / (1 - d * d + z * z * var)
    cases.append({"x": x, "y": y, "est": float(d), "lo": float(max(-1, lo)), "hi": float(min(1, hi))})
out["cliff"] = cases

# Draws of a part that is no more, so that what follows stays as it was.
for x in (rng.gamma(1.5, 10, 12), rng.gamma(2, 10, 15), rng.gamma(2, 10, 11)):
    rng.integers(0, len(x), (400, len(x)))

cases = []
for p in ([0.01], [0.04, 0.01, 0.03, 0.5], [0.2, 0.2, 0.001, 0.9, 1.0], lst(rng.random(20) ** 3), [0.0, 0.05, 0.05]):
    cases.append({"p": p, "holm": lst(multipletests(p, method="holm")[1]), "bonferroni": lst(multipletests(p, method="bonferroni")[1])})
out["multiple"] = cases

cases = []
for x in ([1, 2, 4.0], lst(rng.standard_normal(4)), lst(rng.gamma(1, 1, 5)), lst(rng.gamma(1, 1, 6)), lst(rng.standard_normal(11)), lst(rng.standard_normal(12)),
          lst(rng.gamma(3, 1, 30) + 1e6), lst(rng.standard_t(3, 200)), lst(rng.integers(0, 9, 40))):
    r = stats.shapiro(x)
    cases.append({"x": x, "w": float(r.statistic), "p": float(r.pvalue)})
out["shapiro"] = cases

out["stddev"] = []
for n in (2, 3, 10, 100):
    for c in (0.5, 0.95):
        lo, hi = stats.chi2.ppf([(1 + c) / 2, (1 - c) / 2], n - 1)
        out["stddev"].append({"n": n, "confidence": c, "lo": float(np.sqrt((n - 1) / lo)), "hi": float(np.sqrt((n - 1) / hi))})


def blocking(x):
    """The same rule as in Go, on whole arrays."""
    v0, n, size, largest, x = np.var(x, ddof=1), len(x), 1, 1.0, np.array(x)
    while len(x) >= 8:
        tau = max(1, size * np.var(x, ddof=1) / v0)
        if size**3 > 2 * n * tau**2:
            return min(tau, n)
        largest = max(largest, tau)
        x = x[: len(x) // 2 * 2].reshape(-1, 2).mean(1)
        size *= 2
    return min(largest, n)


cases = []
for n, rho in ((100, 0), (200, 0.5), (300, 0.8), (257, 0.9), (200, -0.5)):
    e, y = rng.standard_normal(n), np.zeros(n)
    for i in range(n):
        y[i] = (rho * y[i - 1] if i else 0) + e[i]
    y = np.round(y, 6)
    cases.append({"y": lst(y), "sokal": max(1.0, float(emcee.autocorr.integrated_time(y, c=5, tol=0)[0])), "blocking": float(blocking(y))})
out["autocorrelation"] = cases


def log_ratio(k, n, p):
    return special.betaln(k + 0.5, n - k + 0.5) - special.betaln(0.5, 0.5) - special.xlogy(k, p) - special.xlog1py(n - k, -p)


cases = []
for n in (1, 6, 7, 8, 10, 30, 100, 1000, 20000):
    for level in (50, 90, 99):
        k = np.arange(n + 1)
        inside = k[log_ratio(k, n, level / 100) < -np.log(0.05)]
        lo, hi = int(inside[0]), int(inside[-1]) + 1
        cases.append({"n": n, "level": level, "lo": lo, "hi": hi, "ok": lo >= 1 and hi <= n})
out["quantile_sequence"] = cases


cases = []
for at in ([10], [10, 20], [10, 20, 30], [6, 25, 30]):
    for alpha in (0.05, 0.01):
        t = np.array(at) / at[-1]
        total = [float(4 * stats.norm.sf(stats.norm.isf(alpha / 4) / np.sqrt(v))) for v in t[:-1]] + [alpha]
        cases.append({"at": at, "alpha": alpha, "sums": lst(np.diff([0] + total))})
out["looks"] = cases

x = np.sort(rng.standard_t(2, 41))
q1, q3 = np.percentile(x, [25, 75], method="inverted_cdf")
out["outliers"] = {"x": lst(x), "mild_lo": q1 - 1.5 * (q3 - q1), "mild_hi": q3 + 1.5 * (q3 - q1), "extreme_lo": q1 - 3 * (q3 - q1), "extreme_hi": q3 + 3 * (q3 - q1),
                   "trimmed": [{"share": s, "mean": float(stats.trim_mean(x, s))} for s in (0, 0.05, 0.1, 0.25, 0.49)]}
print(json.dumps(out))
