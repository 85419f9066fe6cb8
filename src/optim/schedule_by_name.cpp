// The table of schedules, for configuration files.
#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

struct ScheduleRecord {
  std::string name;
  std::vector<std::string> options;
  std::function<Schedule(const NamedNumbers&)> make;
};

template <class Options>
ScheduleRecord schedule_record(const char* name, Fields<Options> fields, std::function<Schedule(const Options&)> make) {
  return {name, names_of(fields), [=](const NamedNumbers& given) {
            Options options;
            for (const auto& [key, value] : given) {
              if (!set_field(options, fields, name, key, value))
                throw_unknown(std::string(name) + ": option", key, names_of(fields));
            }
            return make(options);
          }};
}

struct ExponentialOptions {
  double factor = 0.95;
};
struct PolynomialOptions {
  double power = 1;
};

Schedule make_constant(const NamedNumbers& given) {
  if (!given.empty()) throw_unknown("constant: option", given[0].first, {});
  return constant();
}

// The epochs are several numbers of one name.
Schedule make_milestones(const NamedNumbers& given) {
  std::vector<double> epochs;
  double factor = 0.1;
  for (const auto& [key, value] : given) {
    if (key == "factor") {
      factor = value;
    } else if (key == "epochs") {
      epochs.push_back(value);
    } else {
      throw_unknown("milestones: option", key, {"epochs", "factor"});
    }
  }
  if (epochs.empty()) throw Error("milestones: no epochs are given, such as epochs = [30, 60].");
  return milestones(epochs, factor);
}

const std::vector<ScheduleRecord>& schedules() {
  static const std::vector<ScheduleRecord> records = {
      {"constant", {}, make_constant},
      schedule_record<StepOptions>(
          "step_decay",
          {{"every", &StepOptions::every}, {"factor", &StepOptions::factor}, {"after", &StepOptions::after}},
          step_decay),
      schedule_record<ExponentialOptions>("exponential", {{"factor", &ExponentialOptions::factor}},
                                          [](const ExponentialOptions& o) { return exponential(o.factor); }),
      {"milestones", {"epochs", "factor"}, make_milestones},
      schedule_record<CosineOptions>("cosine", {{"final", &CosineOptions::final}}, cosine),
      schedule_record<OneCycleOptions>(
          "one_cycle",
          {{"rise", &OneCycleOptions::rise}, {"start", &OneCycleOptions::start}, {"end", &OneCycleOptions::end}},
          one_cycle),
      schedule_record<PolynomialOptions>("polynomial", {{"power", &PolynomialOptions::power}},
                                         [](const PolynomialOptions& o) { return polynomial(o.power); }),
      schedule_record<PlateauOptions>("plateau",
                                      {{"patience", &PlateauOptions::patience},
                                       {"factor", &PlateauOptions::factor},
                                       {"threshold", &PlateauOptions::threshold},
                                       {"least", &PlateauOptions::least}},
                                      plateau),
  };
  return records;
}

}  // namespace

Schedule schedule_by_name(const std::string& name, const NamedNumbers& options) {
  return find_record(schedules(), "schedule", name).make(options);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> all;
  for (const ScheduleRecord& record : schedules()) all.push_back(record.name);
  return all;
}

std::vector<std::string> schedule_options_of(const std::string& name) {
  return find_record(schedules(), "schedule", name).options;
}

}  // namespace varve::optim
