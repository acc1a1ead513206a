"""Model files taken apart and put together again, as one who edits them on purpose would do."""

import json
import struct

import numpy as np

from kernlet.export.file import digest
from kernlet.export.machine_file import DTYPES


def parts(content):
    """The header of a safetensors file, and its tensors as bytes."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def signed(header, body):
    """As one who edits a file on purpose would write it."""
    text, tensors = header["__metadata__"]["kernlet"], {}
    for name, words in header.items():
        if name != "__metadata__":
            start, end = words["data_offsets"]
            numbers = np.frombuffer(body[start:end], DTYPES[words["dtype"]])
            tensors[name] = numbers.reshape(words["shape"])
    header["__metadata__"]["sha256"] = digest(text, tensors)
    return joined(header, body)


def joined(header, body):
    """The file of a header and tensors."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body
