// Transfers by libcurl, which is loaded when the first one starts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace varve::data {

// Writes what the URL holds to `path`; Error with curl's own words when that fails.
void transfer(const std::string& url, const std::string& path,
              const std::function<void(std::int64_t done, std::int64_t total)>& progress);

}  // namespace varve::data
