#!/bin/sh
set -eu
cp "$(dirname "$0")/modbus_crc.py" modbus_crc.py
