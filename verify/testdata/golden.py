#!/usr/bin/env python3
"""Prints the SHA-256 of the golden product for each size given, computed with
whole numbers only. Nothing of Assay is used, so that it can be compared.

The product of two rows of whole numbers is taken from one long multiplication:
elements, made positive, are digits of a large number, wide enough that no sum
overflows into the next digit (Kronecker's substitution).
"""
import hashlib
import struct
import sys

MASK = (1 << 64) - 1
SEED = 0x6173736179
DIGIT = 4  # bytes: n * 182 * 182 < 2**32 for n <= 2000


def numerators(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        yield ((z >> 32) * 183 >> 32) - 91


def golden(n):
    source = numerators(SEED)
    a = [[next(source) for _ in range(n)] for _ in range(n)]
    b = [[next(source) for _ in range(n)] for _ in range(n)]
    row_sum = [sum(row) for row in a]
    # Rows of b as numbers whose digits are b + 91; a row of c is the sum of
    # these numbers times a + 91, digit by digit, with the offsets taken out.
    packed = [int.from_bytes(b"".join(struct.pack("<I", v + 91) for v in row), "little") for row in b]
    column_sum = [sum(b[k][j] for k in range(n)) for j in range(n)]
    h = hashlib.sha256()
    for i in range(n):
        total = sum((a[i][k] + 91) * packed[k] for k in range(n))
        digits = struct.unpack("<%dI" % n, total.to_bytes(DIGIT * n, "little"))
        # sum (a+91)(b+91) = sum ab + 91 sum a + 91 sum b + n 91^2
        row = [d - 91 * row_sum[i] - 91 * column_sum[j] - n * 91 * 91 for j, d in enumerate(digits)]
        h.update(struct.pack("<%df" % n, *(v / 65536 for v in row)))
    return h.hexdigest()


for size in sys.argv[1:] or ["240", "2000"]:
    print(size, golden(int(size)))
