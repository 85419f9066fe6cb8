# varve_room(<folder of src/> [LIGHT] [DEPENDS <room>...] [LINK <library>...]
#            [OPTIONAL <sub-folder> WHEN <variable> NEEDS <library>...])
#
# A room is a folder of src/ and one target, varve_<room> (varve_backend_cpu for backends/cpu), of all the .cpp files below it.
# DEPENDS names the rooms it may include from, LINK the outside libraries it uses. The OPTIONAL sub-folder is
# compiled, and <variable> defined for the whole room, only when <variable> is true. LIGHT: nothing in it runs once a
# sample or more, so it is compiled with -O1, in less time.
#
# The arrows are enforced by what a room can see. For each room the build tree holds rooms/<name>/, with nothing in
# it but a link to the room's folder, and that directory is the include path the room offers: "ir/graph.h" is found
# by the rooms that depend on ir, and by nobody else.

# What the rooms add up to: targets with something compiled, windows (include paths), outside libraries.
set_property(GLOBAL PROPERTY VARVE_ROOMS "")
set_property(GLOBAL PROPERTY VARVE_WINDOWS "")
set_property(GLOBAL PROPERTY VARVE_LINKS "")

function(varve_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LIGHT" "OPTIONAL;WHEN" "DEPENDS;LINK;NEEDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "varve_room(${room}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()

  varve_room_target(${room} target)
  set(folder "${PROJECT_SOURCE_DIR}/src/${room}")
  set(links ${arg_LINK})
  set(definitions "")
  file(GLOB_RECURSE sources RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*.cpp")
  if(arg_OPTIONAL)
    if(${arg_WHEN})
      list(APPEND links ${arg_NEEDS})
      set(definitions "${arg_WHEN}=1")
    else()
      list(FILTER sources EXCLUDE REGEX "^${arg_OPTIONAL}/")
    endif()
  endif()
  list(TRANSFORM sources PREPEND "${folder}/")

  # A room that nobody has moved into yet, or of headers only, has nothing to compile.
  if(sources)
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE varve_flags)
    target_compile_definitions(${target} PRIVATE ${definitions})
    varve_unity(${target})
    if(arg_LIGHT)
      target_compile_options(${target} PRIVATE -O1)
    endif()
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY VARVE_ROOMS ${target})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()

  varve_room_window(${room} window)
  target_include_directories(${target} ${scope} "${window}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${target} ${scope} ${links})
  foreach(dependency IN LISTS arg_DEPENDS)
    varve_room_target(${dependency} dependency_target)
    if(NOT TARGET ${dependency_target})
      message(FATAL_ERROR "varve_room(${room}): '${dependency}' is not a room declared above it")
    endif()
    target_link_libraries(${target} ${scope} ${dependency_target})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY VARVE_WINDOWS "${window}")
  set_property(GLOBAL APPEND PROPERTY VARVE_LINKS ${links})
endfunction()

# Several files of the target are compiled as one, so that headers are parsed once for all of them
# (docs/decisions/0022-files-are-compiled-together.md). Names in unnamed namespaces must differ within a target. Files
# that Highway includes once per instruction set, or that replace the allocator, are compiled alone.
function(varve_unity target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BATCH" "")
  if(NOT arg_BATCH)
    set(arg_BATCH 6)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${VARVE_UNITY} UNITY_BUILD_BATCH_SIZE ${arg_BATCH})
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(EXISTS "${source}")
      file(STRINGS "${source}" alone REGEX "#include <hwy/foreach_target.h>|^void\\* operator new" LIMIT_COUNT 1)
      if(alone)
        set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
      if(alone MATCHES "hwy" AND VARVE_SANITIZE MATCHES "undefined")
        # Vectors have addresses to be checked, and little that is undefined; the checks take minutes to compile.
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
      endif()
    endif()
  endforeach()
endfunction()

function(varve_room_target room result)
  string(REPLACE "backends/" "backend_" name "${room}")
  set(${result} "varve_${name}" PARENT_SCOPE)
endfunction()

# The directory through which others see the room, made when configuring.
function(varve_room_window room result)
  varve_room_target(${room} target)
  set(window "${PROJECT_BINARY_DIR}/rooms/${target}")
  get_filename_component(parent "${window}/${room}" DIRECTORY)
  file(MAKE_DIRECTORY "${parent}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${room}" "${window}/${room}" SYMBOLIC)
  set(${result} "${window}" PARENT_SCOPE)
endfunction()
