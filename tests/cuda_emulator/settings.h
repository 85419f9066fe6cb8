// Numbers that tests may set from outside.
#pragma once

#include <cstdlib>

namespace varve::emulator {

inline long long setting(const char* name, long long otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

// Few multiprocessors, so that grids which fill the device stay small.
inline int multiprocessors() { return static_cast<int>(setting("VARVE_EMULATOR_SMS", 4)); }
inline int devices() { return static_cast<int>(setting("VARVE_EMULATOR_DEVICES", 1)); }
inline int capability() { return static_cast<int>(setting("VARVE_EMULATOR_CAPABILITY", 90)); }
inline int driver() { return static_cast<int>(setting("VARVE_EMULATOR_DRIVER", 13000)); }
inline bool tracing() { return setting("VARVE_EMULATOR_TRACE", 0) != 0; }

constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr unsigned kMaxThreadsPerMultiprocessor = 2048;
constexpr unsigned kMaxBlocksPerMultiprocessor = 32;
constexpr unsigned kSharedBytesPerBlock = 48 * 1024;
constexpr unsigned kSharedBytesPerBlockOptin = 227 * 1024;
constexpr unsigned kSharedBytesPerMultiprocessor = 228 * 1024;
constexpr unsigned kReservedSharedBytesPerBlock = 1024;

}  // namespace varve::emulator
