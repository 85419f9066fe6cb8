// The table of optimisers, for configuration files.
#include "optim/named.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

struct Record {
  std::string name;
  std::vector<std::string> options;
  std::function<Optimizer(const NamedNumbers&)> make;
};

template <class Options>
Record record(const char* name, Optimizer (*make)(double, Options), double rate, Options defaults,
              Fields<Options> fields) {
  std::vector<std::string> known = names_of(fields);
  known.insert(known.begin(), "rate");
  return {name, known, [=](const NamedNumbers& given) {
            Options options = defaults;
            double rate_now = rate;
            for (const auto& [key, value] : given) {
              if (key == "rate") {
                rate_now = value;
              } else if (!set_field(options, fields, name, key, value)) {
                throw_unknown(std::string(name) + ": option", key, known);
              }
            }
            return make(rate_now, options);
          }};
}

// Rates and options that are not given are those of the optimiser itself.
const std::vector<Record>& table() {
  static const std::vector<Record> records = {
      record<SgdOptions>("sgd", sgd, sgd().rate(), {},
                         {{"momentum", &SgdOptions::momentum},
                          {"nesterov", &SgdOptions::nesterov},
                          {"weight_decay", &SgdOptions::weight_decay},
                          {"lazy", &SgdOptions::lazy}}),
      record<AdamOptions>("adam", adam, adam().rate(), {},
                          {{"beta1", &AdamOptions::beta1},
                           {"beta2", &AdamOptions::beta2},
                           {"epsilon", &AdamOptions::epsilon},
                           {"weight_decay", &AdamOptions::weight_decay},
                           {"lazy", &AdamOptions::lazy}}),
      record<AdamOptions>("adamw", adamw, adamw().rate(), {.weight_decay = adamw().weight_decay()},
                          {{"beta1", &AdamOptions::beta1},
                           {"beta2", &AdamOptions::beta2},
                           {"epsilon", &AdamOptions::epsilon},
                           {"weight_decay", &AdamOptions::weight_decay},
                           {"lazy", &AdamOptions::lazy}}),
      record<RmspropOptions>("rmsprop", rmsprop, rmsprop().rate(), {},
                             {{"decay", &RmspropOptions::decay},
                              {"epsilon", &RmspropOptions::epsilon},
                              {"momentum", &RmspropOptions::momentum},
                              {"weight_decay", &RmspropOptions::weight_decay},
                              {"lazy", &RmspropOptions::lazy}}),
      record<AdagradOptions>("adagrad", adagrad, adagrad().rate(), {},
                             {{"epsilon", &AdagradOptions::epsilon},
                              {"weight_decay", &AdagradOptions::weight_decay},
                              {"lazy", &AdagradOptions::lazy}}),
      record<AdadeltaOptions>("adadelta", adadelta, adadelta().rate(), {},
                              {{"decay", &AdadeltaOptions::decay},
                               {"epsilon", &AdadeltaOptions::epsilon},
                               {"weight_decay", &AdadeltaOptions::weight_decay},
                               {"lazy", &AdadeltaOptions::lazy}}),
      record<LambOptions>("lamb", lamb, lamb().rate(), {},
                          {{"beta1", &LambOptions::beta1},
                           {"beta2", &LambOptions::beta2},
                           {"epsilon", &LambOptions::epsilon},
                           {"weight_decay", &LambOptions::weight_decay}}),
      record<LionOptions>("lion", lion, lion().rate(), {},
                          {{"beta1", &LionOptions::beta1},
                           {"beta2", &LionOptions::beta2},
                           {"weight_decay", &LionOptions::weight_decay}}),
      record<AdafactorOptions>("adafactor", adafactor, adafactor().rate(), {},
                               {{"decay", &AdafactorOptions::decay},
                                {"epsilon", &AdafactorOptions::epsilon},
                                {"clip", &AdafactorOptions::clip},
                                {"weight_decay", &AdafactorOptions::weight_decay}}),
      record<MuonOptions>("muon", muon, muon().rate(), {},
                          {{"momentum", &MuonOptions::momentum},
                           {"nesterov", &MuonOptions::nesterov},
                           {"iterations", &MuonOptions::iterations},
                           {"weight_decay", &MuonOptions::weight_decay},
                           {"adam_rate", &MuonOptions::adam_rate}}),
      record<LbfgsOptions>("lbfgs", lbfgs, lbfgs().rate(), {},
                           {{"history", &LbfgsOptions::history}, {"weight_decay", &LbfgsOptions::weight_decay}}),
  };
  return records;
}

}  // namespace

Optimizer by_name(const std::string& name, const NamedNumbers& options) {
  return find_record(table(), "optimizer", name).make(options);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Record& record : table()) all.push_back(record.name);
  return all;
}

std::vector<std::string> options_of(const std::string& name) { return find_record(table(), "optimizer", name).options; }

}  // namespace varve::optim
