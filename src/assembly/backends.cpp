// Where all rooms meet: the backends of this build, the default first.
#include "backends/cpu/backend.h"
#include "backends/null/backend.h"
#include "backends/reference/backend.h"
#include "runtime/devices.h"

namespace varve::runtime {

std::vector<std::unique_ptr<backend::Backend>> built_in_backends() {
  std::vector<std::unique_ptr<backend::Backend>> all;
  all.push_back(cpu::make_cpu_backend());
  all.push_back(reference::make_reference_backend());
  all.push_back(null::make_null_backend());
  return all;
}

}  // namespace varve::runtime
