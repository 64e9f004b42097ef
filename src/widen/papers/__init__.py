"""Published systems, by their own names, on the library's rooms.

========================== ====================================================================
``tensor_core_dgemm``      000: Mukunoki, Ozaki, Ogita, Imamura 2020, DGEMM on FP16 tensor cores
``multiple_double``        001: Verschelde, Chen 2026, multiple doubles on FP64 tensor cores
``ozimmu``                 002: Uchino, Ozaki, Imamura 2025, the Ozaki scheme on int8 units
``triple_single``          003: triple-single arithmetic on consumer GPUs
``dgemm_fp8``              004: Mukunoki 2025, DGEMM without FP64 arithmetic
========================== ====================================================================

A paper is a package: ``algorithm``, ``cpu``, ``gpu`` and ``kernels`` hold what it describes (000
and 004 share ``slicing``), ``items`` its tables and figures, which ``widen reproduce`` makes
(docs/papers.md). No other room holds code that only papers need.
"""
