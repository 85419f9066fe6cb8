// Generated groups and copies as tile programs.
#pragma once

#include "backend/backend.h"

namespace varve::cpu {

backend::Claim offer_group(const backend::Group& group);
backend::Prepared prepare_strided_copy(const backend::Port& from, const backend::Port& to);

}  // namespace varve::cpu
