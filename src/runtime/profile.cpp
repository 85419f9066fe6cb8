#include "runtime/profile.h"

#include <cstdio>
#include <sstream>

#include "base/text.h"
#include "runtime/machine.h"

namespace varve {
namespace runtime {
namespace {

// What a kernel multiplies in: the type of the first floating-point operand.
ProductType products_of(const compiler::PlanStep& step, bool rounded) {
  for (const backend::Port& port : step.in_ports)
    if (is_floating(port.type.dtype)) return {port.type.dtype, rounded && port.type.dtype == f32};
  return f32;
}

}  // namespace

Profile make_profile(const compiler::Plan& plan, const std::vector<double>& seconds, int repeats) {
  Profile profile;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const compiler::PlanStep& step = plan.steps[s];
    ProfileRow row{step.kernel, step.op, step.shape, step.origin, repeats};
    const double per_call = (s < seconds.size() ? seconds[s] : 0) / repeats;
    row.ms = per_call * 1e3;
    row.flops = step.cost.flops;
    row.bytes = step.cost.bytes;
    if (per_call > 0) {
      const MachinePeaks peaks = peaks_on(plan.device, products_of(step, plan.choices.tf32));
      row.flops_share = row.flops / per_call / (peaks.gflops * 1e9);
      row.bytes_share = row.bytes / per_call / (peaks.gbps * 1e9);
    }
    profile.total_ms += row.ms;
    profile.rows.push_back(std::move(row));
  }
  return profile;
}

namespace {
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}
}  // namespace
}  // namespace runtime

std::string Profile::table() const {
  std::string text = "      ms      %    GFLOP/s  of peak     GB/s  of peak  kernel\n";
  for (const ProfileRow& row : rows) {
    char line[160];
    const double seconds = row.ms / 1e3;
    std::snprintf(line, sizeof line, "%8.3f  %5.1f  %9.1f  %6.1f%%  %7.1f  %6.1f%%  ", row.ms,
                  total_ms > 0 ? 100 * row.ms / total_ms : 0, seconds > 0 ? row.flops / seconds / 1e9 : 0,
                  100 * row.flops_share, seconds > 0 ? row.bytes / seconds / 1e9 : 0, 100 * row.bytes_share);
    text += cat(line, row.kernel, "  ", row.op, " ", row.shape, row.origin.empty() ? "" : cat("  (", row.origin, ")"),
                "\n");
  }
  char total[64];
  std::snprintf(total, sizeof total, "%8.3f  total\n", total_ms);
  return text + total;
}

std::string Profile::chrome_trace() const {
  std::ostringstream out;
  out << "{\"traceEvents\":[\n";
  double at = 0;
  bool first = true;
  for (const ProfileRow& row : rows) {
    out << (first ? "" : ",\n") << "{\"name\":\"" << runtime::escaped(row.op) << "\",\"cat\":\""
        << runtime::escaped(row.kernel) << "\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":" << at * 1e3
        << ",\"dur\":" << row.ms * 1e3 << ",\"args\":{\"shape\":\"" << runtime::escaped(row.shape) << "\",\"origin\":\""
        << runtime::escaped(row.origin) << "\",\"flops\":" << row.flops << ",\"bytes\":" << row.bytes
        << ",\"flops_share\":" << row.flops_share << ",\"bytes_share\":" << row.bytes_share << "}}";
    first = false;
    at += row.ms;
  }
  out << "\n],\"displayTimeUnit\":\"ms\"}\n";
  return out.str();
}

}  // namespace varve
