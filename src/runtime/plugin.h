// Backends that live in libraries of their own, loaded when first asked for.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/communicator.h"

namespace varve::runtime {

// The CUDA backend for the GPU of this number. Throws Error that says what is missing: library, driver, GPU, version.
std::unique_ptr<backend::Backend> load_cuda_backend(int ordinal);
int count_gpus();  // of this machine; throws as the above does

// The engine of this name ("gloo", "openmpi", "mpich"), joined with the other ranks.
std::unique_ptr<backend::Communicator> load_communicator(const std::string& engine, const backend::Joining& joining);

}  // namespace varve::runtime
