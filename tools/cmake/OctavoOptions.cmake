# Language level, warnings, sanitizers, and the instruction set that shipped code may assume.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(OCTAVO_BUILD_TESTS "Build unit, simulation and integration tests" ON)
set(OCTAVO_SANITIZE "" CACHE STRING "Sanitizers for the whole build: address,undefined or thread")
option(OCTAVO_FUZZ "Build libFuzzer targets (needs clang)" OFF)

# AVX2 is the floor. Files that use more are compiled on their own and picked at run time.
set(OCTAVO_CXX_OPTIONS -march=x86-64-v3 -Wall -Wextra -Wpedantic -Werror)
# Bits must not depend on which expressions a compiler happens to fuse (det.2).
list(APPEND OCTAVO_CXX_OPTIONS -ffp-contract=off)
# Debian's Abseil and gRPC headers warn under -Wpedantic in GCC 12 and clang 14; ours are clean.
list(APPEND OCTAVO_CXX_OPTIONS -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of GCC 12 in inlined libstdc++ code (PR 105562, PR 105329).
  list(APPEND OCTAVO_CXX_OPTIONS -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow)
endif()
foreach(option IN LISTS OCTAVO_CXX_OPTIONS)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
endforeach()

if(OCTAVO_SANITIZE)
  add_compile_options(-fsanitize=${OCTAVO_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${OCTAVO_SANITIZE})
endif()

find_program(OCTAVO_CCACHE ccache)
if(OCTAVO_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OCTAVO_CCACHE})
endif()
find_program(OCTAVO_MOLD mold)
if(OCTAVO_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
