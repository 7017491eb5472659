# The CUDA side (docs/cuda.md): nvcc for the card, and the host compiler's emulation for tests.
find_program(OCTAVO_NVCC nvcc HINTS $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
get_filename_component(OCTAVO_CUDA_ROOT "${OCTAVO_NVCC}" DIRECTORY)
get_filename_component(OCTAVO_CUDA_ROOT "${OCTAVO_CUDA_ROOT}" DIRECTORY)
find_path(OCTAVO_CUDA_INCLUDE cuda_runtime_api.h
  HINTS ${OCTAVO_CUDA_ROOT}/include /usr/local/cuda/include)

# Sanitizer and fuzz builds check host code; the emulation has sanitized builds of its own.
set(OCTAVO_PLAIN_GNU OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT OCTAVO_SANITIZE AND NOT OCTAVO_FUZZ)
  set(OCTAVO_PLAIN_GNU ON)
endif()

if(OCTAVO_NVCC AND OCTAVO_PLAIN_GNU)
  set(OCTAVO_CUDA_DEFAULT ON)
else()
  set(OCTAVO_CUDA_DEFAULT OFF)
endif()
option(OCTAVO_CUDA "Compile the CUDA kernels with nvcc" ${OCTAVO_CUDA_DEFAULT})
option(OCTAVO_CUDA_BACKEND
  "Link the CUDA backend into the programs, which then need libcublasLt.so to start" OFF)
set(OCTAVO_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING "What nvcc compiles for")
# No part of the toolkit. Emulated builds need its header alone.
find_path(OCTAVO_NCCL_INCLUDE nccl.h HINTS ${OCTAVO_CUDA_ROOT}/include ${OCTAVO_CUDA_INCLUDE})
find_library(OCTAVO_NCCL_LIBRARY nccl HINTS ${OCTAVO_CUDA_ROOT}/lib64 ${OCTAVO_CUDA_ROOT}/lib)
if(OCTAVO_NCCL_INCLUDE AND (OCTAVO_NCCL_LIBRARY OR NOT OCTAVO_CUDA_BACKEND))
  set(OCTAVO_NCCL_DEFAULT ON)
else()
  set(OCTAVO_NCCL_DEFAULT OFF)
endif()
option(OCTAVO_NCCL
  "Groups of cards; with OCTAVO_CUDA_BACKEND the programs then need libnccl.so.2 to start"
  ${OCTAVO_NCCL_DEFAULT})

if(OCTAVO_CUDA_BACKEND AND NOT OCTAVO_CUDA)
  message(FATAL_ERROR "OCTAVO_CUDA_BACKEND needs OCTAVO_CUDA")
endif()
if(OCTAVO_CUDA)
  set(CMAKE_CUDA_COMPILER ${OCTAVO_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${OCTAVO_CUDA_ARCHITECTURES})
  if(OCTAVO_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${OCTAVO_CCACHE})
  endif()
  enable_language(CUDA)
  # CMake 3.25.1 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
  # Without -Wpedantic: the host code that nvcc generates has line directives of its own style.
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-march=x86-64-v3,-Wall,-ffp-contract=off>")
endif()

# Kernels under test are compiled by g++ against the toolkit's headers; no nvcc is needed.
set(OCTAVO_EMULATION OFF)
if(OCTAVO_CUDA_INCLUDE AND OCTAVO_PLAIN_GNU AND OCTAVO_BUILD_TESTS)
  set(OCTAVO_EMULATION ON)
endif()
set(OCTAVO_EMULATED_BUILDS fast asan race)
set(OCTAVO_ASAN_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined
  -fno-omit-frame-pointer)

# Compiles SOURCES into an existing target of one of the three builds. A .cu file goes through a
# file that includes the shim first; the race build instruments only those.
function(octavo_emulated_sources target build)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "\\.cu$")
      get_filename_component(path ${source} ABSOLUTE)
      get_filename_component(name ${source} NAME)
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
      set(wrapper ${CMAKE_BINARY_DIR}/emulation/${target}/${name}.cc)
      set(text "#include \"tests/emulation/cuda_shim.h\"\n#include \"${path}\"\n")
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "${text}" @ONLY)
      if(build STREQUAL "race")
        set_source_files_properties(${wrapper} PROPERTIES
          COMPILE_OPTIONS "-O1;-fsanitize=thread;-Wno-tsan")
      endif()
      target_sources(${target} PRIVATE ${wrapper})
    else()
      target_sources(${target} PRIVATE ${source})
    endif()
  endforeach()
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PUBLIC ${OCTAVO_CUDA_INCLUDE})
  if(OCTAVO_NCCL)
    target_include_directories(${target} SYSTEM PUBLIC ${OCTAVO_NCCL_INCLUDE})
  endif()
  target_compile_options(${target} PRIVATE -g1 -Wno-unknown-pragmas)
  if(build STREQUAL "asan")
    target_compile_options(${target} PRIVATE -O1 ${OCTAVO_ASAN_FLAGS})
    target_link_options(${target} PUBLIC ${OCTAVO_ASAN_FLAGS})
  else()
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()

# Names that begin with emulated_ stand for the library of the same build.
function(octavo_emulated_link target build)
  foreach(library IN LISTS ARGN)
    if(library MATCHES "^emulated_")
      target_link_libraries(${target} PUBLIC ${library}_${build})
    else()
      target_link_libraries(${target} PUBLIC ${library})
    endif()
  endforeach()
endfunction()

# octavo_emulated_library(emulated_NAME SOURCES *.cu *.cc LINK ...): emulated_NAME_fast, _asan
# and _race, linked against the stand-ins for the CUDA libraries.
function(octavo_emulated_library name)
  if(NOT OCTAVO_EMULATION)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  foreach(build IN LISTS OCTAVO_EMULATED_BUILDS)
    add_library(${name}_${build} STATIC)
    octavo_emulated_sources(${name}_${build} ${build} ${ARG_SOURCES})
    octavo_emulated_link(${name}_${build} ${build} ${ARG_LINK} emulated_device)
  endforeach()
endfunction()

# octavo_emulated_test(NAME SOURCES *.cu *.cc LINK ... [TIMEOUT s]): a GoogleTest binary per build,
# run with seeds 0 to 5 (fast) or once (asan, race). Tests find the build's name in
# OCTAVO_EMULATED_BUILD.
function(octavo_emulated_test name)
  if(NOT OCTAVO_EMULATION)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  foreach(build IN LISTS OCTAVO_EMULATED_BUILDS)
    set(target ${name}_${build})
    add_executable(${target})
    octavo_emulated_sources(${target} ${build} ${ARG_SOURCES})
    octavo_emulated_link(${target} ${build} ${ARG_LINK} emulated_device)
    target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
    target_compile_definitions(${target} PRIVATE OCTAVO_EMULATED_BUILD="${build}"
      OCTAVO_SOURCE_DIR="${CMAKE_SOURCE_DIR}" OCTAVO_BINARY_DIR="${CMAKE_BINARY_DIR}")
    # Exported symbols give failures the names of kernels.
    set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set(seeds 4)
    if(build STREQUAL "fast")
      set(seeds 0 1 2 3 4 5)
    endif()
    foreach(seed IN LISTS seeds)
      math(EXPR resident "1 + ${seed} % 3")
      add_test(NAME ${target}_seed${seed} COMMAND ${target})
      set_tests_properties(${target}_seed${seed} PROPERTIES
        TIMEOUT ${ARG_TIMEOUT} LABELS emulation
        ENVIRONMENT "OCTAVO_EMU_SEED=${seed};OCTAVO_EMU_RESIDENT=${resident}")
    endforeach()
  endforeach()
endfunction()
