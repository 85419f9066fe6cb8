// Warp collectives. Each lane brings a payload on its own stack, where it stays valid while the lane waits; the last
// lane to arrive runs the combination for all.
#pragma once

#include "runtime.h"

inline unsigned emu_lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31; }
inline void emu_collective(unsigned mask, EmuCombine combine, void* payload) {
  emu_block->runtime->collective(emu_block, mask, combine, payload);
}
inline unsigned __activemask() { return emu_block->runtime->live_lanes(emu_block); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  emu_collective(
      mask, [](unsigned, void* const*) {}, nullptr);
}

template <class T>
struct EmuShuffle {
  T value, result;
  int source;
};
template <class T>
inline T emu_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles values of 4 or 8 bytes");
  EmuShuffle<T> mine{value, value, source};
  emu_collective(
      mask,
      [](unsigned lanes, void* const* payloads) {
        for (int lane = 0; lane < 32; ++lane) {
          if (!(lanes >> lane & 1)) continue;
          auto* to = static_cast<EmuShuffle<T>*>(payloads[lane]);
          if (lanes >> to->source & 1)
            to->result = static_cast<EmuShuffle<T>*>(payloads[to->source])->value;
          else
            __builtin_memset(&to->result, 0xFF, sizeof(T));  // undefined on the device: make it show
        }
      },
      &mine);
  return mine.result;
}
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  int first = static_cast<int>(emu_lane()) & ~(width - 1);
  return emu_shuffle(mask, value, first | (source & (width - 1)));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = static_cast<int>(emu_lane()), first = lane & ~(width - 1), source = lane - static_cast<int>(delta);
  return emu_shuffle(mask, value, source < first ? lane : source);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = static_cast<int>(emu_lane()), last = lane | (width - 1), source = lane + static_cast<int>(delta);
  return emu_shuffle(mask, value, source > last ? lane : source);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  int lane = static_cast<int>(emu_lane()), last = lane | (width - 1), source = lane ^ bits;
  return emu_shuffle(mask, value, source > last ? lane : source);
}

struct EmuVote {
  bool predicate;
  unsigned ballot, lanes;
};
inline EmuVote emu_vote(unsigned mask, int predicate) {
  EmuVote mine{predicate != 0, 0, 0};
  emu_collective(
      mask,
      [](unsigned lanes, void* const* payloads) {
        unsigned ballot = 0;
        for (int lane = 0; lane < 32; ++lane)
          if (lanes >> lane & 1) ballot |= unsigned{static_cast<EmuVote*>(payloads[lane])->predicate} << lane;
        for (int lane = 0; lane < 32; ++lane)
          if (lanes >> lane & 1) {
            static_cast<EmuVote*>(payloads[lane])->ballot = ballot;
            static_cast<EmuVote*>(payloads[lane])->lanes = lanes;
          }
      },
      &mine);
  return mine;
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emu_vote(mask, predicate).ballot; }
inline int __any_sync(unsigned mask, int predicate) { return emu_vote(mask, predicate).ballot != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  EmuVote vote = emu_vote(mask, predicate);
  return vote.ballot == vote.lanes;
}

template <char operation, class T>
inline T emu_fold(T a, T b) {
  if (operation == '+') return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  if (operation == '<') return a < b ? a : b;
  if (operation == '>') return a < b ? b : a;
  if (operation == '&') return a & b;
  return operation == '|' ? a | b : a ^ b;
}
template <char operation, class T>
inline T emu_reduce(unsigned mask, T value) {
  emu_collective(
      mask,
      [](unsigned lanes, void* const* payloads) {
        int first = __builtin_ctz(lanes);
        T total = *static_cast<T*>(payloads[first]);
        for (int lane = first + 1; lane < 32; ++lane)
          if (lanes >> lane & 1) total = emu_fold<operation>(total, *static_cast<T*>(payloads[lane]));
        for (int lane = first; lane < 32; ++lane)
          if (lanes >> lane & 1) *static_cast<T*>(payloads[lane]) = total;
      },
      &value);
  return value;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) { return emu_reduce<'+'>(mask, value); }
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) { return emu_reduce<'<'>(mask, value); }
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) { return emu_reduce<'>'>(mask, value); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) { return emu_reduce<'&'>(mask, value); }
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) { return emu_reduce<'|'>(mask, value); }
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) { return emu_reduce<'^'>(mask, value); }
inline int __reduce_add_sync(unsigned mask, int value) { return emu_reduce<'+'>(mask, value); }
inline int __reduce_min_sync(unsigned mask, int value) { return emu_reduce<'<'>(mask, value); }
inline int __reduce_max_sync(unsigned mask, int value) { return emu_reduce<'>'>(mask, value); }
