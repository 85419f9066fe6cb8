// Stable sorting by integer keys, in memory that the caller brings: no comparisons, no allocation.
#pragma once

#include <cstdint>
#include <utility>

namespace varve::cpu {

template <class Key>
struct Keyed {
  Key key;
  Key place;  // where the element came from
};

template <class Key>
void insertion_sort(Keyed<Key>* items, std::int64_t count) {
  for (std::int64_t i = 1; i < count; ++i) {
    const Keyed<Key> item = items[i];
    std::int64_t to = i;
    for (; to > 0 && items[to - 1].key > item.key; --to) items[to] = items[to - 1];
    items[to] = item;
  }
}

// Returns the sorted elements: in `items` or in `spare`, which holds as many. A byte of the key at a time, the lowest
// first; bytes that are the same in all keys cost nothing.
template <class Key>
Keyed<Key>* stable_sort(Keyed<Key>* items, Keyed<Key>* spare, std::int64_t count) {
  constexpr std::int64_t kShort = 64;  // insertion is faster
  if (count <= kShort) {
    insertion_sort(items, count);
    return items;
  }
  constexpr int kDigits = sizeof(Key);
  std::int64_t starts[kDigits][256] = {};
  for (std::int64_t i = 0; i < count; ++i)
    for (int digit = 0; digit < kDigits; ++digit) ++starts[digit][(items[i].key >> (8 * digit)) & 255];
  for (int digit = 0; digit < kDigits; ++digit) {
    std::int64_t* start = starts[digit];
    if (start[(items[0].key >> (8 * digit)) & 255] == count) continue;
    std::int64_t total = 0;
    for (int value = 0; value < 256; ++value) total += std::exchange(start[value], total);
    for (std::int64_t i = 0; i < count; ++i) spare[start[(items[i].key >> (8 * digit)) & 255]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

}  // namespace varve::cpu
