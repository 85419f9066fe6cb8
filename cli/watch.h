// The page of a run, served while it changes.
#pragma once

#include <memory>
#include <string>

#include "cli/page_server.h"

namespace varve::cli {

constexpr int kWatchPort = 8642;  // unless it is taken

// Serves the page of the run in `folder`; it refreshes itself as epochs end.
std::unique_ptr<PageServer> watch_run(const std::string& folder, int port);

}  // namespace varve::cli
