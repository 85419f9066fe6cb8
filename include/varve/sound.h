// Sounds: WAV files, another rate, and the spectrum that networks listen to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "varve/tensor.h"

namespace varve {

struct Sound {
  std::int64_t rate = 0;       // samples a second
  std::vector<float> samples;  // one channel, -1…1
};

// WAV files of whole numbers (8, 16, 24 or 32 bits) or of f32 or f64. Several channels become their mean. Error that
// names the file when it is damaged or of another kind.
Sound load_wav(const std::string& path);
Sound decode_wav(const void* data, std::size_t bytes, const std::string& name);
bool has_sound_name(const std::string& path);                // ends in .wav, in small or capital letters
void save_wav(const std::string& path, const Sound& sound);  // 16 bits; what is beyond -1…1 is cut off
Sound resample(const Sound& sound, std::int64_t rate);       // band-limited: nothing above the new half rate is left
Sound fit_length(const Sound& sound, std::int64_t samples);  // its middle, or silence on both sides

// Frames of a sound, each as the energy in bands that are as wide as the ear's: mels from 0 Hz to half the rate.
struct LogMelOptions {
  std::int64_t window = 400, step = 160;  // samples of a frame, and from frame to frame
  std::int64_t mels = 40;
};
// f32 [frames, mels], frames = 1 + (samples - window) / step: the logarithm of the energy of each band.
Tensor log_mel(const Sound& sound, const LogMelOptions& options = {});

}  // namespace varve
