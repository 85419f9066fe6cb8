// How long idle threads of a team wait actively. OpenMP's own choice, several milliseconds, starves the thread that
// loads data and every other program as soon as there are more threads than cores; a sixtieth of it costs nothing that
// can be measured on an idle machine.
#include <cstdlib>

namespace {

void wait_briefly(int, char**, char**) {
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "5000", 0);
}

// OpenMP reads it when its library is initialised: before main and before any constructor of this program, but after
// this array.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**, char**) = wait_briefly;

}  // namespace
