// Which Varve a program runs with.
#pragma once

namespace varve {

// Of the library: "0.2.0".
const char* version();

}  // namespace varve
