#!/bin/sh
set -eu
python3 service.py
