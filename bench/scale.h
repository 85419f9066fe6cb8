// How training grows with ranks: for each number of them the step, what the same ranks take when nobody talks, what one
// rank takes alone, and how long values were on the wire.
#pragma once

#include <string>
#include <vector>

#include "bench/driver.h"

namespace varve::bench {

// As the command line gives them.
struct ScaleText {
  std::string ranks = "1,2", hosts = "1", compress = "none";
  std::string wire = {};  // of hosts, as `tc` writes it: "200mbit"; "": as fast as the machine
  bool weak = false;      // the batch is a rank's; else it is that of all ranks together
};

struct ScalePlan {
  std::vector<int> ranks = {}, hosts = {};
  std::vector<std::string> compress = {};
  std::string wire = {};
  bool weak = false;
};
ScalePlan make_scale_plan(const ScaleText& text);

// Records of one workload, batch and number of threads of a rank: one rank, then for each number of ranks the apart
// and the connected ones. All take turns, round after round.
std::vector<Record> measure_scaling(Driver& driver, const Setting& setting, const ScalePlan& plan,
                                    const std::vector<std::string>& frameworks);

// What follows from the medians of one setting's records: samples a second, the speed over one rank, and over as many
// ranks that know nothing of one another. Into `details`, and a framework's time over Varve's into `ratio_to_varve`.
void fill_scaling(std::vector<Record>& records);

// Of a record of this kind.
struct Scaling {
  explicit Scaling(const Record& record);
  bool connected = true, weak = false;
  int hosts = 1;
  std::string compress, rate, engine;
  double samples_per_second = 0, speed_up = 0, efficiency = 0;  // 0: unknown
  double busy_ms = 0, waited_ms = 0, bytes = 0, messages = 0;   // of a step, on the wire
  bool has_wire = false;
  double hidden() const { return busy_ms > 0 ? 1 - waited_ms / busy_ms : 0; }
};

}  // namespace varve::bench
