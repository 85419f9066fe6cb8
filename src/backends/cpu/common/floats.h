// An operand as f32.
#pragma once

namespace varve::cpu {

inline const float* floats(const void* data) { return static_cast<const float*>(data); }
inline float* floats(void* data) { return static_cast<float*>(data); }

}  // namespace varve::cpu
