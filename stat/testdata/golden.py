"""Makes golden.json: run with scipy and numpy installed, output to golden.json.

    python golden.py > golden.json
"""
import json
import numpy as np
from scipy import optimize, stats

out = {"scipy": __import__("scipy").__version__}

ranks = []
for level in (50, 90, 95, 99, 99.9):
    for n in (5, 6, 7, 35, 36, 71, 72, 100, 367, 368, 1000, 3687, 3688, 100000, 1000000):
        p = level / 100
        # largest lo with P(B <= lo-1) <= .025, smallest hi with P(B >= hi) <= .025
        k = np.arange(0, n + 1)
        lo = int(np.sum(stats.binom.cdf(k, n, p) <= 0.025))
        sf = stats.binom.sf(k, n, p)
        hi = int(np.argmax(sf <= 0.025)) + 1
        ranks.append({"level": level, "n": n, "lo": lo, "hi": hi, "ok": lo >= 1 and hi <= n})
out["quantile_ranks"] = ranks

out["student"] = [
    {"p": p, "df": df, "t": float(stats.t.ppf(p, df))}
    for p in (0.6, 0.9, 0.975, 0.995, 0.025) for df in (1, 1.5, 2, 5, 30, 1000, 1e6)
]
out["normal"] = [{"p": p, "z": float(stats.norm.ppf(p))} for p in (0.001, 0.3, 0.5, 0.975, 0.9999)]
out["mean_interval"] = []
rng = np.random.default_rng(7)
for n in (2, 3, 10, 100):
    x = rng.gamma(3, 20, n)
    lo, hi = stats.t.interval(0.95, n - 1, loc=x.mean(), scale=stats.sem(x))
    out["mean_interval"].append({"x": x.tolist(), "mean": float(x.mean()), "stddev": float(x.std(ddof=1)), "lo": float(lo), "hi": float(hi)})
out["proportion"] = []
for k, n in ((0, 1), (0, 10), (1, 10), (5, 10), (10, 10), (3, 1000), (999, 1000), (10, 1000000)):
    ci = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    out["proportion"].append({"k": k, "n": n, "lo": float(ci.low), "hi": float(ci.high)})

x = rng.integers(0, 1000000, 999)
out["nearest_rank"] = {
    "x": x.tolist(),
    "q": [{"level": l, "value": int(np.percentile(x, l, method="inverted_cdf"))} for l in (1, 25, 50, 90, 95, 99, 99.9)],
}

usl = []
loads = np.array([1, 2, 4, 8, 16, 32, 64], float)
for gamma, sigma, kappa, noise in ((10, 0.05, 0.001, 0), (10, 0.05, 0.001, 0.03), (4, 0.2, 0, 0.02), (7, 0, 0.002, 0.02), (3, 0, 0, 0.01)):
    x = gamma * loads / (1 + sigma * (loads - 1) + kappa * loads * (loads - 1))
    x = x * (1 + noise * rng.standard_normal(len(loads)))
    w = x / loads
    a = np.stack([w, w * (loads - 1), w * loads * (loads - 1)], axis=1)
    scale = np.linalg.norm(a, axis=0)
    c, _ = optimize.nnls(a / scale, np.ones(len(loads)))
    c = c / scale
    g, s, k = 1 / c[0], c[1] / c[0], c[2] / c[0]
    fit = g * loads / (1 + s * (loads - 1) + k * loads * (loads - 1))
    r2 = 1 - np.sum((x - fit) ** 2) / np.sum((x - x.mean()) ** 2)
    usl.append({"n": loads.tolist(), "x": x.tolist(), "gamma": float(g), "sigma": float(s), "kappa": float(k), "r2": float(r2)})
out["usl"] = usl
print(json.dumps(out))
