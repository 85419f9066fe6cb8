#include "varve/version.h"

namespace varve {

const char* version() { return VARVE_VERSION; }

}  // namespace varve
