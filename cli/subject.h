// What a command is about: a network file, a name of the zoo or the folder of a run.
#pragma once

#include <string>

#include "cli/menu.h"
#include "varve/train/config.h"

namespace varve::cli {

bool is_setting(const std::string& word);  // key=value
// Whether a word names a setting of some command: a key of [train], a size of a network, an option of a data set.
bool is_setting_name(const std::string& word);
Subject subject_of(const std::vector<std::string>& words, const std::string& command);

bool is_run(const std::string& what);  // an existing folder
// Its device and threads become current. UsageError for what does not exist, Error for files that are wrong.
// Without a network, one is chosen for the data; `chosen` says which.
train::Config config_of(const Subject& subject, std::string* chosen = nullptr);

// Makes the device and the number of threads current; throws UsageError with the nearest known device.
void use_device(const std::string& device, int threads);

std::string machine_line();  // "varve 0.2.0 · cpu, 2 threads, AVX-512"

}  // namespace varve::cli
