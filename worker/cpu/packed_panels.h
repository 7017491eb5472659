// Rewrites stored weight rows as one panel of packed_format.h. Exact: only bits move.
#ifndef OCTAVO_WORKER_CPU_PACKED_PANELS_H_
#define OCTAVO_WORKER_CPU_PACKED_PANELS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/dtype.h"
#include "worker/cpu/packed_format.h"

namespace octavo {

// nullopt: not a dtype of weights.
std::optional<PackFormat> PackFormatOf(DType dtype);

// rows[r]: the stored bytes of panel row r, `cols` elements; nullptr: a row of zeros.
// REQUIRES: `panel` is zeroed and holds PanelBytes(format, ceil(cols / 32)); cols is a whole number
// of storage blocks.
void EncodePanel(PackFormat format, const std::byte* const rows[kPanelRows], int64_t cols,
                 uint8_t* panel);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_PACKED_PANELS_H_
