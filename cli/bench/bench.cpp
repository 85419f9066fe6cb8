// varve-bench, the program behind `varve bench`: the table of its commands. A new one is its function, its name in both
// lists below, and its test.
#include "cli/menu.h"

namespace varve::cli {

AddCommand add_bench_ops, add_bench_data, add_bench_step, add_bench_infer, add_bench_parts, add_bench_train,
    add_bench_quick, add_bench_ablate, add_bench_verify, add_bench_explain, add_bench_compare, add_bench_setup,
    add_bench_worker, add_bench_report, add_bench_study, add_bench_submit, add_bench_scale;

// In the order of `varve bench --help`.
void add_commands(Menu& menu) {
  Menu bench = menu.submenu({.name = "bench", .what = "Measure speed"});
  for (AddCommand* add :
       {add_bench_ops, add_bench_data, add_bench_step, add_bench_infer, add_bench_parts, add_bench_train,
        add_bench_scale, add_bench_quick, add_bench_ablate, add_bench_verify, add_bench_explain, add_bench_compare,
        add_bench_setup, add_bench_worker, add_bench_report, add_bench_study, add_bench_submit})
    add(bench);
}

}  // namespace varve::cli
