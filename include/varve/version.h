#pragma once

namespace varve {

// Of the library that this program runs with: "0.2.0".
const char* version();

}  // namespace varve
