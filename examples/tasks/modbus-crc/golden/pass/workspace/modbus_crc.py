"""Modbus RTU frames: the checksum, building a frame, checking one."""


def _table_entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0xA001 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def crc16(data):
    """The CRC-16/MODBUS of `data`."""
    register = 0xFFFF
    for byte in data:
        register = register >> 8 ^ _TABLE[(register ^ byte) & 0xFF]
    return register


def frame(address, function, payload):
    """The frame with its CRC. Raises ValueError for what does not fit into one."""
    if not 0 <= address <= 247:
        raise ValueError(f"address is {address}, expected 0 to 247")
    if not 1 <= function <= 127:
        raise ValueError(f"function is {function}, expected 1 to 127")
    if len(payload) > 252:
        raise ValueError(f"payload has {len(payload)} bytes, expected at most 252")
    body = bytes([address, function]) + payload
    return body + crc16(body).to_bytes(2, "little")


def is_valid(frame):
    """Whether `frame` has a possible length and ends in the right CRC."""
    return 4 <= len(frame) <= 256 and crc16(frame[:-2]) == int.from_bytes(frame[-2:], "little")
