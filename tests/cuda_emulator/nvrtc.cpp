// NVRTC's functions over g++.
#include <nvrtc.h>

#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "compiler.h"
#include "image.h"
#include "source.h"

using namespace varve::emulator;

struct _nvrtcProgram {
  std::string text, name;
  std::map<std::string, std::string> headers;
  std::vector<std::string> expressions;
  std::string image, log;
};

namespace {

// Keeps what g++ must know and leaves out what only a GPU's compiler can use.
std::vector<std::string> gcc_options(int count, const char* const* options) {
  const std::map<std::string, std::string> kept = {{"--define-macro", "-D"},
                                                   {"--undefine-macro", "-U"},
                                                   {"--include-path", "-I"},
                                                   {"-D", "-D"},
                                                   {"-U", "-U"},
                                                   {"-I", "-I"}};
  std::vector<std::string> result;
  for (int i = 0; i < count; ++i) {
    std::string option = options[i];
    for (const auto& [theirs, ours] : kept) {
      if (option.rfind(theirs, 0) != 0) continue;
      std::string value = option.substr(theirs.size());
      if (value.empty() && i + 1 < count) value = options[++i];
      if (theirs.size() > 2 && !value.empty() && value[0] == '=') value.erase(0, 1);
      result.push_back(ours + value);
      break;
    }
  }
  return result;
}

nvrtcResult copy_out(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult size_out(const std::string& text, size_t* size) {
  *size = text.size() + 1;
  return NVRTC_SUCCESS;
}

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 90;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case NVRTC_ERROR_INTERNAL_ERROR:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name, int header_count,
                               const char* const* headers, const char* const* include_names) {
  if (!program || !text) return NVRTC_ERROR_INVALID_INPUT;
  auto* made = new _nvrtcProgram{};
  made->text = text;
  made->name = name && *name ? name : "default_program";
  for (int i = 0; i < header_count; ++i) made->headers[include_names[i]] = headers[i];
  *program = made;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (!program || !*program) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (!program) return NVRTC_ERROR_INVALID_PROGRAM;
  try {
    const std::string text = with_headers(program->text, program->name, program->headers);
    Compiled compiled =
        compile({.source = for_gcc(text, program->name, program->expressions), .options = gcc_options(count, options)});
    program->log = compiled.log;
    if (compiled.library.empty()) return NVRTC_ERROR_COMPILATION;
    program->image = kImagePrefix + compiled.library;
    return NVRTC_SUCCESS;
  } catch (const std::exception& error) {
    program->log = error.what();
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) { return size_out(program->image, size); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) { return copy_out(program->image, cubin); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) { return size_out(program->image, size); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) { return copy_out(program->image, ptx); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) { return size_out(program->log, size); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return copy_out(program->log, log); }

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  if (!program || !expression) return NVRTC_ERROR_INVALID_INPUT;
  program->expressions.push_back(expression);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** name) {
  if (program->image.empty()) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  for (const std::string& known : program->expressions) {
    if (known != expression) continue;
    *name = known.c_str();
    return NVRTC_SUCCESS;
  }
  return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}
