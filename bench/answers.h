// What a worker answered, taken into the record of its framework.
#pragma once

#include "bench/frameworks.h"
#include "bench/record.h"

namespace varve::bench {

// Adds one process: its samples, and what only this kind of measurement has.
// step, infer: the samples. parts: forward + gradient + update, and each apart under details. train: the seconds of the
// whole training as one sample; accuracies, epochs and the rest, run by run, under details.runs.
void add_answer(Record& record, const Answer& answer);

// Why an answer with status "ok" cannot be believed; "" when it can.
std::string objection(const nlohmann::json& answer, const std::string& task);

}  // namespace varve::bench
