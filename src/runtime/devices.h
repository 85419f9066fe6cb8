// The backends of this process, by name: "cpu", or "cuda" (the same as "cuda:0"), "cuda:1", …
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace varve::runtime {

const backend::Backend& backend_named(const std::string& name);  // throws Error listing the known ones
std::vector<std::string> backend_names();                        // built in
std::vector<std::string> device_names();  // what a user may ask for: also those that are loaded when asked for
bool is_device_name(const std::string& name);
std::string loaded_device(const void* device);  // the name of the backend that this device belongs to

// Declared here, defined where all rooms meet (src/assembly): the list of what was built in.
std::vector<std::unique_ptr<backend::Backend>> built_in_backends();

}  // namespace varve::runtime
