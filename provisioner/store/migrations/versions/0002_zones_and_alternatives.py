"""Where a volume lies, and which other offers a launch may be made of"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("volume", schema=None) as batch_op:
        batch_op.add_column(sa.Column("zone", sa.String(length=128), nullable=True))
    with op.batch_alter_table("instance", schema=None) as batch_op:
        batch_op.add_column(sa.Column("alternatives", sa.JSON(), nullable=True))
