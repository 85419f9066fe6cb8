// The parts of a report, each from the records alone. A part without records has no blocks and is left out.
#pragma once

#include <string>
#include <vector>

#include "bench/report/facts.h"
#include "bench/report/table.h"

namespace varve::bench {

Section step_section(const Facts& facts);
Section thread_section(const Facts& facts);
Section batch_section(const Facts& facts);
Section rank_section(const Facts& facts);
Section memory_section(const Facts& facts);
Section utilisation_section(const Facts& facts);
Section training_section(const Facts& facts);
Section inference_section(const Facts& facts);
Section parts_section(const Facts& facts);
Section ablation_section(const Facts& facts);
Section studies_section(const Facts& facts);
// Study C: its principles, its metrics of hardware, its table of frameworks. `root`: how the page's folder leads to
// that of the sources ("../../"); "": the files are named but not linked.
std::vector<Section> qualities(const Facts& facts, const std::string& root);
Section gaps_section(const Facts& facts);       // what failed, ran out of memory or is missing, with the reason
Section unchecked_section(const Facts& facts);  // what was measured without the equity check, and says nothing here
Section origins_section(const Facts& facts);    // machines, versions, commands

// ---- what they share
// "Varve first" heads, one for each framework that any of the records is of.
std::vector<std::string> framework_labels(const std::vector<std::string>& frameworks);
std::string legend_html(const std::vector<std::string>& frameworks);
std::string grid_html(const std::string& charts);  // side by side where there is room
// Above the blocks of a machine, where there are several.
std::string machine_heading(const Facts& facts, const std::string& machine);
struct BarRow {
  std::string name;  // text
  int style = 0;
  double value = 0;   // its bar, of the longest; 0: none
  std::string words;  // what stands behind it
};
std::string bars_html(const std::string& title, const std::vector<BarRow>& rows);

}  // namespace varve::bench
