"""Prints requirements with the hash of the one file that this Python installs
for each, as the parts' lists of requirements have them:

    VENV/bin/python -m pip list --format freeze | VENV/bin/python pin.py

It downloads what the index gives no metadata for.
"""

import json
import subprocess
import sys
import tempfile

wanted = [line.strip() for line in sys.stdin if line.strip() and not line.startswith("#")]
with tempfile.NamedTemporaryFile(suffix=".json") as report:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--report", report.name, *wanted], check=True)
    found = json.load(report)["install"]
for item in sorted(found, key=lambda i: i["metadata"]["name"].lower()):
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    print(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{digest}")
