"""Numbers of the ops in a pointwise program (``proto/ops/pointwise_ops.inc``)."""

LOAD = 0
CONST = 1
ADD = 2
MUL = 3
RELU = 4
SILU = 5
NEG = 6
SCALE = 7
SIGMOID = 8
SUB = 16
DIV = 17
MAXIMUM = 23
MINIMUM = 24
ABS = 70
EXP = 72
LOG = 75
SQRT = 79
RSQRT = 80
RECIPROCAL = 81
SQUARE = 82
SIN = 83
COS = 84
TANH = 91
ERF = 95
GELU = 110
GELU_TANH = 111
