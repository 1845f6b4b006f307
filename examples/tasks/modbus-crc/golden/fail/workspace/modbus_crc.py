"""CRC helpers for Modbus RTU."""


def crc16(data: bytes) -> int:
    crc = 0x0000
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def frame(address: int, function: int, payload: bytes) -> bytes:
    body = bytes([address, function]) + payload
    return body + crc16(body).to_bytes(2, "big")


def is_valid(frame: bytes) -> bool:
    return crc16(frame[:-2]) == int.from_bytes(frame[-2:], "big")
