// The governor's structs, sized and read. A target that includes this depends on the governor's
// headers itself: on the product, or on what the explorer of schedules compiles.
#ifndef MEMBRANE_TESTS_SUPPORT_FIGURES_H
#define MEMBRANE_TESTS_SUPPORT_FIGURES_H

extern "C" {
#include "governor/governor.h"
}

namespace governor_figures
{

inline mbr_error NewError()
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    return error;
}

inline mbr_authority_figures Figures(mbr_authority *authority)
{
    mbr_authority_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_authority_figures_read(authority, &figures);
    return figures;
}

inline mbr_holder_figures Figures(mbr_holder *holder)
{
    mbr_holder_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_holder_figures_read(holder, &figures);
    return figures;
}

} // namespace governor_figures

#endif
