"""DLPack's structs by hand, for tests: capsules as another library makes them, and what lies in ours."""

import ctypes

CAPSULE_NEW = ctypes.pythonapi.PyCapsule_New
CAPSULE_NEW.restype, CAPSULE_NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
CAPSULE_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
CAPSULE_POINTER.restype, CAPSULE_POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
CAPSULE_NAME = ctypes.pythonapi.PyCapsule_GetName
CAPSULE_NAME.restype, CAPSULE_NAME.argtypes = ctypes.c_char_p, [ctypes.py_object]

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6


class Array(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("array", Array), ("owner", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", DELETER),
        ("flags", ctypes.c_uint64), ("array", Array),
    ]  # fmt: skip


def opened(capsule):
    """The struct in a capsule that nobody has taken."""
    name = CAPSULE_NAME(capsule)
    kind = {b"dltensor": Unversioned, b"dltensor_versioned": Versioned}[name]
    return kind.from_address(CAPSULE_POINTER(capsule, name))


class Producer:
    """An array of another library at an address, which counts how often it is given back."""

    def __init__(self, address, shape, code=FLOAT, bits=32, lanes=1, strides=None, offset=0, device=(1, 0), major=1, old=False):
        self.device, self.old, self.asked, self.released = device, old, [], 0
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.deleter = DELETER(self._release)
        self.managed = Unversioned() if old else Versioned(major=major)
        self.managed.deleter = self.deleter
        array = self.managed.array
        array.data, array.device_type, array.device_id, array.ndim = address, *device, len(shape)
        array.code, array.bits, array.lanes, array.byte_offset = code, bits, lanes, offset
        array.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides is not None:
            array.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))

    def _release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        if self.old and "max_version" in options:
            raise TypeError("an old library knows no max_version")
        self.asked.append(options)
        return CAPSULE_NEW(ctypes.addressof(self.managed), b"dltensor" if self.old else b"dltensor_versioned", None)
