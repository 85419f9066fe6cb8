// The virtual environment of the other frameworks.
#pragma once

#include <iosfwd>
#include <string>

namespace varve::bench {

struct SetupOptions {
  std::string python = "python3";  // that makes the environment
  double limit_seconds = 3600;
};
// Makes it in peers_folder(), or brings it to the pinned versions of adapters/requirements.txt, from PyPI. Says what it
// does; Error with pip's last words when that fails. Does nothing where VARVE_PEERS_PYTHON names another.
void setup_peers(const SetupOptions& options, std::ostream& out);

}  // namespace varve::bench
