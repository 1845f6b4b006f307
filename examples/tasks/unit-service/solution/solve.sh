#!/bin/sh
set -eu
cp "$(dirname "$0")/service.py" service.py
python3 service.py
