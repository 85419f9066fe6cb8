// Which of cuDNN's ways computes a problem: the fastest that was measured, found once and kept on disk, so that every
// run of every process computes the same bits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace varve::cuda {

// The way by which this problem was computed before, in this process or another one with the same GPU and cuDNN.
std::optional<std::string> remembered_way(const std::string& problem);
void remember_way(const std::string& problem, const std::string& way, bool on_disk);

// Starts each way's work a few times; the number of the fastest, or nothing when none works. Each must be able to run
// within a recording.
std::optional<std::size_t> fastest_way(const std::vector<std::function<void()>>& ways);

// Choices as text: a problem, a tab, and a way on each line. The first line about a problem counts.
std::unordered_map<std::string, std::string> read_ways(const std::string& text);

}  // namespace varve::cuda
