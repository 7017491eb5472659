// Draws a run over time.
#ifndef OCTAVO_TOOLS_SIMULATE_BLOCK_PLOT_H_
#define OCTAVO_TOOLS_SIMULATE_BLOCK_PLOT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tools/simulate/time_series.h"

namespace octavo::simulate {

// An SVG document of two panels over the same time: how the pool's blocks were used, stacked up to
// `num_blocks`, and how many requests ran and waited.
std::string PlotBlocks(const TimeSeries& levels, absl::string_view title, int64_t num_blocks,
                       int32_t block_size);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_BLOCK_PLOT_H_
