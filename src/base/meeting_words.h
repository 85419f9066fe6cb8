// What the place where ranks meet and a rank say to each other, in frames (base/sockets.h): a word, then its fields.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/sockets.h"

namespace varve::meeting {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// The first byte of a frame.
enum Word : char {
  kHello = 'h',   // rank, kind, key, version, who
  kAccept = 'a',  // you are in
  kRefuse = 'r',  // you are not, and why
  kSet = 's',
  kGet = 'g',
  kValue = 'v',
  kBeat = 'b',    // from a rank: how many collectives it has begun; back: we are here
  kFail = 'f',    // from a rank: what went wrong; to all: the same
  kLost = 'l',    // from a rank: collectives begun, and which connection to others broke: who is to blame?
  kSignal = 'n',  // to all: a signal that the launcher got, and passes on
  kBye = 'q',     // ends: collectives begun, and with which error, if with one
};
// A rank's two connections: questions, and beats.
inline constexpr std::uint32_t kControl = 0, kPulse = 1;
inline constexpr double kHelloSeconds = 5, kBeatSeconds = 1;
// A process that was stopped and goes on (Ctrl-Z, a laptop that slept) has heard nobody meanwhile: it waits anew.
inline constexpr double kSleptSeconds = 4;

inline std::string frame_of(Word word, std::initializer_list<std::string_view> texts = {}) {
  std::string frame(1, word);
  for (const std::string_view text : texts) put_text(frame, text);
  return frame;
}

inline std::string counted_frame(Word word, std::uint64_t count) {
  std::string frame(1, word);
  put_number(frame, static_cast<std::uint32_t>(count));
  put_number(frame, static_cast<std::uint32_t>(count >> 32));
  return frame;
}

inline bool take_count(std::string_view& frame, std::uint64_t& count) {
  std::uint32_t low = 0, high = 0;
  if (!take_number(frame, low) || !take_number(frame, high)) return false;
  count = low | static_cast<std::uint64_t>(high) << 32;
  return true;
}

}  // namespace varve::meeting
