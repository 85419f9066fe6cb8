// The table of commands. A new one is its file, which defines add_<name>, its name in both lists below, and its test.
#include "cli/menu.h"

namespace varve::cli {

AddCommand add_train, add_demo, add_lr_find, add_eval, add_predict, add_export, add_runs, add_watch, add_summary,
    add_zoo, add_datasets, add_schema, add_ops, add_launch, add_info, add_doctor, add_completion;

// In the order of `varve --help`.
void add_commands(Menu& menu) {
  for (AddCommand* add :
       {add_train, add_demo, add_lr_find, add_eval, add_predict, add_export, add_runs, add_watch, add_summary, add_zoo,
        add_datasets, add_schema, add_ops, add_launch, add_info, add_doctor, add_completion})
    add(menu);
  menu.program({.name = "bench", .what = "Measure speed"}, "varve-bench");
}

}  // namespace varve::cli
